// mngr's extension for pi: it reports the agent's state and delivers messages. It needs nothing but node. A failure in this file
// must never disturb pi.
import fs from "node:fs"
import path from "node:path"

const DIR = process.env.MNGR_AGENT_DIR ?? ""
const BOX = path.join(DIR, "inbox")
const CURRENT = path.join(DIR, "pi", "session") // names the file of the conversation on the screen
const SLOW = 1_000 // ms by which the next retry may be late
const BEGIN = 10_000 // ms within which a message begins a turn, if it begins one
const FAR = 60_000 // ms: only a limit that lasts longer is reported

let now = { state: "WAITING", reason: "end_of_turn" }
let lastStatus = ""
let tries = 0 // consecutive failures
let timer = null
let clock = null
let limit = null // when the limit ends, from the model's last response

const stamp = (ms) => new Date(ms ?? Date.now()).toISOString()

function event(type, data = {}) {
  const row = { v: 1, at: stamp(), agent: path.basename(DIR), type, source: "hook", data }
  fs.appendFileSync(path.join(DIR, "events.jsonl"), JSON.stringify(row) + "\n", { mode: 0o600 })
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

function tell(state) {
  now = state
  if (JSON.stringify(now) === lastStatus) return
  lastStatus = JSON.stringify(now)
  replace(path.join(DIR, "status"), JSON.stringify({ ...now, at: stamp() }) + "\n")
}

function begin() {
  clearTimeout(timer)
  tell({ state: "RUNNING", reason: "" })
}

function end(trouble = {}) {
  clearTimeout(timer)
  tries = 0
  tell({ state: "WAITING", reason: "end_of_turn", ...trouble })
  event(trouble.error ? "turn_failed" : "turn_end", trouble)
}

function wordFor(message) {
  if (/\b402\b|quota|billing|credit|usage.?limit|limit reached/i.test(message)) return "usage_limit"
  if (/\b40[13]\b|unauthori|authenticat|api.?key|logged out|\/login/i.test(message)) return "authentication_failed"
  if (/\b(429|529|503)\b|rate.?limit|too many requests|overloaded|retry delay/i.test(message)) return "rate_limit"
  return "failed"
}

function retries() {
  try {
    const file = path.join(process.env.PI_CODING_AGENT_DIR ?? "", "settings.json")
    return { enabled: true, maxRetries: 3, baseDelayMs: 2000, ...JSON.parse(fs.readFileSync(file, "utf8")).retry }
  } catch {
    return { enabled: true, maxRetries: 3, baseDelayMs: 2000 }
  }
}

// pi reports an end for every failed try, but not whether it retries. A timer ends the turn if no retry follows.
function failed(message) {
  const error = wordFor(message)
  const trouble = { error, ...(limit && limit - Date.now() > FAR ? { until: stamp(limit) } : {}) }
  const { enabled, maxRetries, baseDelayMs } = retries()
  tries += 1
  if (!enabled || tries > maxRetries || error === "authentication_failed") return end(trouble)
  tell({ state: "RUNNING", reason: "retrying" })
  timer = setTimeout(() => end(trouble), baseDelayMs * 2 ** (tries - 1) + SLOW)
}

function textOf(content) {
  if (typeof content === "string") return content
  return (content ?? []).map((part) => part.text ?? "").join("")
}

// Deleting the file decides who has the message: the extension, or a sender that stopped waiting.
function take(pi, ctx) {
  if (now.reason === "retrying") return // a message sent now would run in parallel with the retry
  try {
    for (const name of fs.readdirSync(BOX).sort()) {
      if (name.startsWith(".") || !name.endsWith(".message")) continue
      const file = path.join(BOX, name)
      const text = fs.readFileSync(file, "utf8")
      fs.unlinkSync(file)
      pi.sendUserMessage(text, { deliverAs: "steer" })
      if (ctx.isIdle()) return // send the next message after this one has begun
    }
  } catch {
    // The next check tries again.
  }
}

function listen(pi, ctx) {
  clearInterval(clock)
  const file = ctx.sessionManager.getSessionFile()
  if (file) replace(CURRENT, file + "\n")
  tell(now)
  event("ready", {})
  clock = setInterval(() => take(pi, ctx), 100)
}

const safely = (act) => async (event_data, ctx) => {
  try {
    act(event_data, ctx)
  } catch (error) {
    event("fault", { message: String(error).slice(0, 500) })
  }
}

export default function mngr(pi) {
  if (!DIR) return
  pi.on("session_start", safely((_, ctx) => listen(pi, ctx)))
  pi.on("session_shutdown", safely(() => clearInterval(clock)))
  pi.on("input", safely(({ text }, ctx) => {
    const isBusy = !ctx.isIdle()
    begin()
    event("message", { prompt: text })
    if (!isBusy) timer = setTimeout(() => ctx.isIdle() && end(), BEGIN)
  }))
  pi.on("agent_start", safely(begin))
  pi.on("after_provider_response", safely(({ status, headers }) => {
    const after = headers?.["retry-after"]
    limit = status < 400 || !after ? null : Number(after) > 0 ? Date.now() + after * 1000 : Date.parse(after)
  }))
  pi.on("tool_execution_start", safely(({ toolName, toolCallId }) => event("tool_start", { tool: toolName, call: toolCallId })))
  pi.on("tool_execution_end", safely(({ toolName, toolCallId, isError }) =>
    event("tool_end", { tool: toolName, call: toolCallId, ok: !isError })))
  pi.on("agent_end", safely(({ messages }) => {
    const last = [...messages].reverse().find((message) => message.role === "assistant")
    if (last?.stopReason === "error") failed(last.errorMessage ?? textOf(last.content))
    else end()
  }))
}
