// opencode_play.mjs PLUGIN RECORDING: send recorded events to the plugin. Prints each status that the plugin wrote, its requests
// to the program, and the number of files in its inbox after each row.
// The clock does not advance. With IMMOVABLE a conversation can only be copied, and the recording is played during the copy.
// A row {"box": NAME, "text": TEXT, "after": MS} is a file in the agent's inbox that is MS newer than the events.
// With "stays" the script does not wait until the plugin has taken the file.
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
