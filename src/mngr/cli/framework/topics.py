"""The topics that `mngr help TOPIC` explains in addition to commands."""

from __future__ import annotations

TOPICS = {
    "addresses": """\
An address names an agent, a host or a path: [NAME][@[HOST][.PROVIDER]][:PATH]

  foo               the agent foo
  foo@box           foo on the host box
  foo@box.docker    foo on the host box of the provider docker
  foo@.modal        in create: foo on a new host from the provider modal
  @box              the host itself
  foo:out/x.json    a path in foo's work dir

The part after the last dot is a provider only if a provider has that name: in
foo@10.0.0.5, the host is 10.0.0.5.
You can write an agent's id (a- and 12 hex digits) wherever a name is expected.
A name has at most 63 lower-case letters, digits, - and _, starts with a letter or
a digit, and is unique in a home. - in place of names reads them from standard input.
""",
    "exit-codes": """\
    0  success
    1  expected failure: Error says what failed and why, Hint says what to run next
    2  wrong usage
    3  a bug in mngr: two lines, and the path of a crash log
    4  some of several targets failed; mngr lists each
    5  timed out
    6  mngr could not reach a host or provider
  130  interrupted

exec on one agent returns the command's own exit code, 128+N if signal N ended the
command, and 255 if the connection was lost while the command ran.
""",
    "filters": """\
--filter takes FIELD OP VALUE, joined by and, or, not and parentheses.

  ==  !=            equal, not equal
  <  <=  >  >=      compares numbers as numbers, and everything else as text
  ~                 the field contains a match of this regular expression

`mngr list --json` shows all fields; labels.team is the label team. Quote a value that
contains spaces.

  mngr list --filter 'state == RUNNING and labels.team == red'
  mngr list --filter 'not (state == DONE or state == STOPPED)'
  mngr list --filter 'name ~ "^w-[0-9]+$"'
""",
    "formats": """\
mngr writes data to standard output, and everything else to standard error.
--format chooses how the data look:

  human                   for people
  json                    one object with "v": 1; --json is short for this
  jsonl                   one object per line, each with "v": 1
  '{name} {labels.team}'  a template, filled in for each row; \\t is a tab, \\n a line end

In JSON, agents are in "agents", and the results of commands on several targets in
"results", each with id, name, ok and error. An error is
{"v": 1, "error": {"message", "hint", "code"}} on standard error.

Text for people has colours on a terminal. NO_COLOR turns colours off, and FORCE_COLOR
turns them on everywhere. COLUMNS limits the width of tables.
""",
    "states": """\
  STARTING   mngr is creating or starting the agent
  RUNNING    the agent is working
  WAITING    the agent waits for you; the reason is end_of_turn, permission or question
  PARKED     the agent cannot continue now; the reason is rate_limit, quota or login,
             and parked_until says until when
  DONE       the agent's process ended with exit code 0
  FAILED     the process ended with another exit code, or vanished (reason lost)
  STOPPED    you or a limit stopped the agent; mngr start starts it again
  UNKNOWN    the agent's record is damaged, or its host does not answer

Each state has a source (record, exit, process, hook, transcript or screen) and a time.
mngr explain NAME explains why an agent has its state.
""",
}
