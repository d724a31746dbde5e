// mngr's plugin for opencode: it reports the agent's state, keeps its conversation and delivers messages.
// It needs nothing beyond opencode itself. A failure in this file must never disturb opencode.
import fs from "node:fs"
import path from "node:path"

const DIR = process.env.MNGR_AGENT_DIR ?? ""
const BOX = path.join(DIR, "inbox")
const WORK = process.env.MNGR_WORK_DIR ?? ""
const CURRENT = path.join(DIR, "opencode", "session") // holds the conversation's id and its work dir, one per line
const FAR = 60_000 // ms: a retry later than this counts as PARKED instead of RUNNING
const LATE = 1_000 // ms within which the end of an answer follows the end of its turn
const SHOWN = 30_000 // ms after which opencode certainly shows its screen
const PLACES = { CONFIG: ".config", DATA: ".local/share", STATE: ".local/state", CACHE: ".cache" }

let client = null
let current = null // the conversation that receives messages
let lastStatus = "" // the last written status
let trouble = null // the error that ended the last turn
let taking = false
let copying = false // while a conversation is copied, its events are old
const busy = new Map() // conversation: its status
const endedTurns = new Map() // conversations whose turn ended, but whose answer may be incomplete
const unanswered = new Map() // conversation: the last message, until its answer begins
const open = new Map() // conversation: its incomplete answer
const children = new Set() // conversations of sub-agents
const asked = new Map() // question: {reason, at}
const roles = new Map() // message: {role, model}
const pendingRows = new Map() // message: its last row, until its usage is known
const calls = new Map() // message: its running tool calls
const written = new Set() // parts that already have a row
const spent = new Map() // sub-agent's conversation: usage

const stamp = (ms) => new Date(ms ?? Date.now()).toISOString()

function append(name, row) {
  fs.appendFileSync(path.join(DIR, name), JSON.stringify(row) + "\n", { mode: 0o600 })
}

function event(type, data = {}) {
  append("events.jsonl", { v: 1, at: stamp(), agent: path.basename(DIR), type, source: "hook", data })
}

function replace(file, text) {
  const fresh = `${file}.${process.pid}`
  try {
    fs.writeFileSync(fresh, text, { mode: 0o600 })
    fs.renameSync(fresh, file)
  } catch {
    const same = fs.openSync(file, "r+") // a sandbox allows only changes to the content
    fs.ftruncateSync(same, fs.writeSync(same, text))
    fs.closeSync(same)
  }
}

function state() {
  const asks = [...asked.values()].map((question) => question.reason)
  if (asks.length) return { state: "WAITING", reason: asks.includes("permission") ? "permission" : "question" }
  const again = [...busy.values()].find((status) => status.type === "retry")
  if (again && again.next - Date.now() > FAR) {
    const reason = reasonOf({ data: { statusCode: 429, message: again.message } })
    return { state: "PARKED", reason, until: stamp(again.next) }
  }
  if (again) return { state: "RUNNING", reason: "retrying" }
  if (busy.size) return { state: "RUNNING", reason: "" }
  const reason = trouble && reasonOf(trouble)
  return reason ? { state: "PARKED", reason, ...untilOf(trouble) } : { state: "WAITING", reason: "end_of_turn" }
}

function tell() {
  const now = state()
  if (JSON.stringify(now) === lastStatus) return
  lastStatus = JSON.stringify(now)
  replace(path.join(DIR, "status"), JSON.stringify({ ...now, at: stamp() }) + "\n")
}

function reasonOf(error) {
  const { statusCode, message = "", responseBody = "" } = error.data ?? {}
  const text = `${message} ${responseBody}`
  const isRefused = [402, 403, 429].includes(statusCode)
  if (statusCode === 402 || (isRefused && /quota|billing|credit|usage.?limit|limit reached/i.test(text))) return "quota"
  if (error.name === "ProviderAuthError" || statusCode === 401 || statusCode === 403) return "login"
  if (statusCode === 429 || statusCode === 529 || /overloaded|rate.?limit/i.test(message)) return "rate_limit"
  return null
}

// Return when a limit ends, from the headers or the body of the response.
function untilOf(error) {
  const { responseHeaders = {}, responseBody = "" } = error.data ?? {}
  if (reasonOf(error) === "login") return {}
  const reset = /"resets?_?at":\s*"?(\d{10})(?:\d{3})?\b/i.exec(responseBody)
  if (reset) return { until: stamp(reset[1] * 1000) }
  const after = responseHeaders["retry-after"]
  const at = Number(after) > 0 ? Date.now() + after * 1000 : Date.parse(after)
  return at > 0 ? { until: stamp(at) } : {}
}

function writePendingRow(message) {
  if (pendingRows.has(message)) append("transcript.jsonl", pendingRows.get(message))
  pendingRows.delete(message)
}

function addPendingRow(part, row) {
  if (written.has(part.id)) return
  written.add(part.id)
  writePendingRow(part.messageID)
  pendingRows.set(part.messageID, { v: 1, model: roles.get(part.messageID)?.model, ...row })
  if (calls.get(part.messageID)?.size) writePendingRow(part.messageID) // another row of this message will follow
}

function add(a, b) {
  const sum = { ...a }
  for (const [name, count] of Object.entries(b ?? {})) sum[name] = (sum[name] ?? 0) + count
  return sum
}

function usageOf(part) {
  const { input = 0, output = 0, reasoning = 0, cache = {} } = part.tokens ?? {}
  const counts = { input_tokens: input, output_tokens: output + reasoning }
  const cached = { cache_read_tokens: cache.read ?? 0, cache_write_tokens: cache.write ?? 0 }
  return { ...counts, ...cached, ...(part.cost ? { cost_usd: part.cost } : {}) } // 0 means that opencode does not know the price
}

function finish(part) {
  const usage = usageOf(part)
  if (children.has(part.sessionID)) {
    spent.set(part.sessionID, add(spent.get(part.sessionID), { ...usage, calls: 1 }))
    return
  }
  if (!pendingRows.has(part.messageID)) addPendingRow(part, { at: stamp(), role: "assistant", text: "" })
  const row = pendingRows.get(part.messageID)
  if (row) pendingRows.set(part.messageID, { ...row, usage: add(row.usage, usage) })
  writePendingRow(part.messageID)
}

function usedBy(child) {
  const usage = spent.get(child)
  spent.delete(child)
  return usage ? { usage } : {}
}

function toolPart(part) {
  const { status, input, output, error, time, metadata } = part.state
  const underWay = calls.get(part.messageID) ?? new Set()
  calls.set(part.messageID, underWay)
  if (status === "pending" || status === "running") {
    writePendingRow(part.messageID)
    if (!underWay.has(part.callID)) event("tool_start", { tool: part.tool, call: part.callID })
    underWay.add(part.callID)
    return
  }
  underWay.delete(part.callID)
  const row = { at: stamp(time?.end), role: "tool", text: "", tool: part.tool, input, output: output ?? error ?? "" }
  addPendingRow(part, { ...row, ...usedBy(metadata?.sessionId) })
  event("tool_end", { tool: part.tool, call: part.callID, ok: status === "completed" })
}

// The status changes before the message event: a delivered message must never appear beside the state WAITING.
function userPart(part) {
  if (part.type !== "text" || part.synthetic || written.has(part.id)) return
  written.add(part.id)
  append("transcript.jsonl", { v: 1, at: stamp(), role: "user", text: part.text })
  choose(part.sessionID)
  trouble = null
  unanswered.set(part.sessionID, part.messageID)
  begin(part.sessionID, { type: "busy" })
  event("message", { prompt: part.text })
}

function partUpdated({ part }) {
  if (copying) return
  const isChild = children.has(part.sessionID)
  if (part.type === "step-finish") finish(part)
  else if (isChild) return
  else if (roles.get(part.messageID)?.role === "user") userPart(part)
  else if (part.type === "tool") toolPart(part)
  else if (part.type === "text" && part.time?.end && part.text.trim() && !part.synthetic)
    addPendingRow(part, { at: stamp(part.time.end), role: "assistant", text: part.text })
}

function messageUpdated({ info }) {
  roles.set(info.id, { role: info.role, model: info.modelID })
  if (info.role !== "assistant") return
  if (unanswered.get(info.sessionID) === info.parentID) unanswered.delete(info.sessionID)
  const isOpen = open.get(info.sessionID) === info.id
  if (!info.time?.completed && !isOpen) {
    open.set(info.sessionID, info.id)
    take()
  } else if (info.time?.completed && isOpen) open.delete(info.sessionID)
  if (endedTurns.has(info.sessionID)) endTurn(info.sessionID)
}

function begin(session, status) {
  endedTurns.delete(session)
  busy.set(session, status)
  tell()
}

// End the turn, but wait for an open answer first. A message that came at the end of the turn begins the next one.
function endTurn(session) {
  if (!busy.has(session)) return
  const mark = {}
  endedTurns.set(session, mark)
  if (!open.has(session) && !unanswered.has(session)) finishTurn(session)
  else setTimeout(() => endedTurns.get(session) === mark && finishTurn(session), LATE)
}

function finishTurn(session) {
  for (const memory of [open, unanswered, endedTurns]) memory.delete(session)
  busy.delete(session)
  if (!busy.size) {
    for (const message of [...pendingRows.keys()]) writePendingRow(message)
    calls.clear()
    asked.clear()
  }
  tell()
  if (!children.has(session)) event(trouble ? "turn_failed" : "turn_end", trouble ? describeTrouble(trouble) : {})
}

// Omit the message of a refused login, because providers quote API keys in it.
function describeTrouble(error) {
  const { statusCode: status, message = "" } = error.data ?? {}
  return { error: error.name, status, message: reasonOf(error) === "login" ? "" : String(message).slice(0, 500) }
}

// opencode reports no end for a turn that fails before it begins.
async function failed({ sessionID, error }) {
  if (error && error.name !== "MessageAbortedError" && !children.has(sessionID)) trouble = error
  const real = (await client.session.status()).data ?? {}
  for (const session of [...busy.keys()]) if (!real[session]) endTurn(session)
}

function ask(id, reason, data) {
  asked.set(id, { reason, at: Date.now() })
  for (const message of [...pendingRows.keys()]) writePendingRow(message)
  tell()
  event(reason, data)
}

function answered(id) {
  asked.delete(id)
  tell()
}

function sessionSeen({ info }) {
  if (info.parentID) children.add(info.id)
}

function choose(session) {
  if (children.has(session) || session === current) return
  current = session
  replace(CURRENT, `${session}\n${WORK}\n`)
}

const EVENTS = {
  "session.created": sessionSeen,
  "session.updated": sessionSeen,
  "session.status": ({ sessionID, status }) => (status.type === "idle" ? endTurn(sessionID) : begin(sessionID, status)),
  "session.idle": ({ sessionID }) => endTurn(sessionID),
  "session.error": failed,
  "message.updated": messageUpdated,
  "message.part.updated": partUpdated,
  "permission.asked": ({ id, permission, patterns }) => ask(id, "permission", { permission, patterns }),
  "permission.replied": ({ requestID }) => answered(requestID),
  "question.asked": ({ id, questions }) => ask(id, "question", { questions }),
  "question.replied": ({ requestID }) => answered(requestID),
  "question.rejected": ({ requestID }) => answered(requestID),
}

async function post(url, body) {
  const done = await client._client.post({ url, body, headers: { "Content-Type": "application/json" } })
  if (done.error) throw new Error(JSON.stringify(done.error))
  return done.data
}

// opencode does not report when its screen is ready, and it loses earlier requests. So the request is repeated.
function show(session, pause = 500) {
  post("/tui/select-session", { sessionID: session }).catch(() => {})
  if (pause < SHOWN) setTimeout(() => current === session && show(session, 2 * pause), pause)
}

async function deliver(text) {
  if (!current) {
    choose((await post("/session", {})).id)
    show(current)
  }
  await post(`/session/${current}/prompt_async`, { parts: [{ type: "text", text }] })
}

// An answer counts only for a question that was asked before the answer was given.
async function answer(reply, at) {
  const [id] = [...asked].find(([, question]) => question.reason === "permission" && question.at <= at) ?? []
  if (id) await post(`/permission/${id}/reply`, { reply })
}

const ACTS = { message: deliver, allow: (_, at) => answer("once", at), deny: (_, at) => answer("reject", at) }

// Some versions overlook a message that arrives before the answer to the last one has begun. Such a message stays in the inbox.
// Deleting the file decides who has the message: the plugin, or a sender that stopped waiting.
async function take() {
  if (taking) return
  taking = true
  try {
    for (const name of fs.readdirSync(BOX).sort()) {
      const act = name.startsWith(".") ? undefined : ACTS[name.split(".").pop()]
      if (!act || (act === deliver && unanswered.has(current) && !open.has(current))) continue
      const file = path.join(BOX, name)
      const [text, at] = [fs.readFileSync(file, "utf8"), fs.statSync(file).mtimeMs]
      fs.unlinkSync(file)
      await act(text, at).catch((error) => event("refused", { message: String(error).slice(0, 500) }))
    }
  } catch {
    // The next check tries again.
  } finally {
    taking = false
  }
}

function last() {
  try {
    return fs.readFileSync(CURRENT, "utf8").trim().split("\n")
  } catch {
    return [] // there is no earlier conversation
  }
}

// Move or copy a conversation here: it would otherwise work in the directory where it began, even another agent's.
async function bring(session, directory) {
  try {
    await post("/experimental/control-plane/move-session", { sessionID: session, destination: { directory } })
    return session
  } catch {
    copying = true
    return (await post(`/session/${session}/fork`, {})).id
  } finally {
    copying = false
  }
}

async function listen(directory) {
  const [session, work] = last()
  if (session && work === WORK) current = session
  else if (session) {
    try {
      choose(await bring(session, directory))
      show(current)
    } catch (error) {
      event("fault", { message: `the conversation could not be brought along: ${error}`.slice(0, 500) })
    }
  }
  tell()
  event("ready", { resumed: current !== null })
  try {
    fs.watch(BOX, take)
  } catch {
    // The interval below checks the inbox too.
  }
  setInterval(take, 500)
}

export default async function mngr(input) {
  if (!DIR) return {}
  if (!client) {
    client = input.client
    listen(input.directory) // not awaited: opencode answers no request before its plugins are loaded
  }
  return {
    event: async ({ event: { type, properties } }) => {
      try {
        await EVENTS[type]?.(properties)
      } catch (error) {
        event("fault", { type, message: String(error).slice(0, 500) })
      }
    },
    // Only opencode itself uses the agent's XDG directories. The commands that it runs get the usual ones.
    "shell.env": async (_, output) => {
      for (const [name, place] of Object.entries(PLACES)) output.env[`XDG_${name}_HOME`] = path.join(process.env.HOME ?? "/", place)
    },
  }
}
