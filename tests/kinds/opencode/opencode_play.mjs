// play.mjs PLUGIN RECORDING: play recorded events to the plugin; prints each status it wrote, what it asked of the program and how many files it left in its inbox after each row.
// Time stands still. With IMMOVABLE a conversation can only be copied, and the events tell of that. A row {"box": NAME, "text": TEXT, "after": MS} is a file in the agent's inbox, so long after the events; with "stays" it is not waited for.
import fs from "node:fs"
import path from "node:path"
import { pathToFileURL } from "node:url"

const [plugin, recording] = process.argv.slice(2)
const dir = process.env.MNGR_AGENT_DIR
const rows = fs.readFileSync(recording, "utf8").trim().split("\n").map((line) => JSON.parse(line))
const now = rows.map((row) => row.properties?.info?.time?.created).find(Boolean) ?? 1_800_000_000_000
Date.now = () => now

const states = []
const posts = []
const left = []
const client = {
  session: { status: async () => ({ data: {} }) },
  _client: {
    post: async ({ url, body }) => {
      posts.push([url, body])
      await new Promise((resolve) => setTimeout(resolve, 1))
      if (url.endsWith("/fork")) for (const row of rows.splice(0)) await hooks.event({ event: row })
      return url.endsWith("move-session") && process.env.IMMOVABLE ? { error: "no" } : { data: { id: "ses_new" } }
    },
  },
}

function look() {
  const { at, ...status } = JSON.parse(fs.readFileSync(path.join(dir, "status"), "utf8"))
  if (JSON.stringify(status) !== JSON.stringify(states.at(-1))) states.push(status)
}

const until = async (done) => {
  while (!done()) await new Promise((resolve) => setTimeout(resolve, 5))
}

const { default: start } = await import(pathToFileURL(plugin))
const hooks = await start({ client, directory: "/here" })
await until(() => fs.existsSync(path.join(dir, "status")))
look()
for (const row of rows) {
  if (row.box) {
    const file = path.join(dir, "inbox", row.box)
    fs.writeFileSync(file + ".new", row.text ?? "")
    fs.utimesSync(file + ".new", new Date(), new Date(now + row.after))
    fs.renameSync(file + ".new", file)
    await until(() => row.stays || !fs.existsSync(file))
    await new Promise((resolve) => setTimeout(resolve, 5))
  } else await hooks.event({ event: row })
  look()
  left.push(fs.readdirSync(path.join(dir, "inbox")).length)
}
console.log(JSON.stringify({ states, posts, left }))
process.exit(0)
