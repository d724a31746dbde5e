"""The topics that `mngr help TOPIC` explains in addition to commands."""

from __future__ import annotations

TOPICS = {
    "addresses": """\
An agent is named by an address: [NAME][@[HOST][.PROVIDER]][:PATH]

  foo               the agent foo
  foo@box           foo on the host box
  foo@box.docker    foo on the host box of the provider docker
  foo@.modal        in create: foo on a new host of that provider
  @box              the host itself
  foo:out/x.json    a path in foo's work dir

What follows the last dot is a provider only if a provider has that name: foo@10.0.0.5 is a host.
An id (a- and 12 hex digits) fits wherever a name does. A name is lower-case letters, digits, - and _, at most 63,
starting with a letter or digit, and is unique in a home. - in place of names reads them from standard input.
""",
    "exit-codes": """\
    0  done
    1  an expected failure: Error: says what and why, Hint: the next step
    2  wrong usage
    3  a bug of mngr: two lines and the path of a crash log
    4  some of several failed; each is listed
    5  timed out
    6  a host or provider could not be reached
  130  interrupted

exec on one agent gives the command's own exit code, 128+N when signal N ended it, and 255 when the connection was
lost while it ran.
""",
    "filters": """\
--filter takes FIELD OP VALUE, joined by and, or, not and parentheses.

  ==  !=            equal, not equal
  <  <=  >  >=      numbers as numbers, all else as text (times sort as text)
  ~                 the value is a regular expression that is found somewhere in the field

A field is one of those in `mngr list --format json`; labels.team is the label team. A value with spaces is quoted.

  mngr list --filter 'state == RUNNING and labels.team == red'
  mngr list --filter 'not (state == DONE or state == STOPPED)'
  mngr list --filter 'name ~ "^w-[0-9]+$"'
""",
    "formats": """\
Standard output is data, standard error is everything else. --format says what the data look like:

  human                         for people; colour only on a terminal, none when NO_COLOR is set
  json                          one object with "v": 1
  jsonl                         one object a line, each with "v": 1
  '{name} {labels.team}'        a template, filled in once a row; \\t and \\n are a tab and a line end

Agents are under "agents", what became of several targets under "results", each with id, name, ok and error.
With json or jsonl an error is {"v": 1, "error": {"message", "hint", "code"}} on standard error.
""",
    "states": """\
  STARTING   it is being made
  RUNNING    its process runs
  WAITING    it waits for a person; the reason is end_of_turn, permission or question
  PARKED     it cannot go on for now; the reason is rate_limit, quota or login, and parked_until says how long
  DONE       its process ended with exit code 0
  FAILED     its process ended with another exit code, or is gone without a trace (reason lost)
  STOPPED    it was stopped; mngr start brings it back
  UNKNOWN    what is written down about it is damaged, or its host does not tell

Every state names where it was read (record, exit, process, hook, transcript or screen) and since when.
mngr explain NAME says why an agent has the state it has.
""",
}
