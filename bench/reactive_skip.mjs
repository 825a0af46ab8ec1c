// The Skip runtime (wasm): sum and min per key; see bench/reactive.py.
// node reactive_skip.mjs <folder>  ->  one JSON line
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'
const folder = process.argv[2]
const home = join(folder, 'node_modules', '@skipruntime', 'wasm', 'dist', 'src', 'node.js')
const { initService } = await import(pathToFileURL(home))

const read = (name) => {
  const bytes = readFileSync(`${folder}/${name}.i64`)
  return Array.from(new BigInt64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8), Number)
}
const keys = read('keys'), values = read('values'), edits = read('edits')
class Sum {
  initial = 0
  add(acc, value) { return acc + value }
  remove(acc, value) { return acc - value }
}
class Min {
  initial = null
  add(acc, value) { return acc === null || value < acc ? value : acc }
  remove(acc, value) { return value > acc ? acc : null }
}
class Sums { instantiate(c) { return c.sums } }
class Mins { instantiate(c) { return c.mins } }
const service = await initService({
  initialData: { rows: [] },
  resources: { sums: Sums, mins: Mins },
  createGraph: ({ rows }) => ({ sums: rows.reduce(Sum), mins: rows.reduce(Min) }),
})
const held = new Map()
keys.forEach((key, i) => held.has(key) ? held.get(key).push(values[i]) : held.set(key, [values[i]]))
const found = { sums: new Map(), mins: new Map() }
let open = 0
for (const name of ['sums', 'mins']) {
  await service.instantiateResource(name, name, {})
  service.subscribe(name, {
    subscribed: () => { open++ },
    notify: (update) => { for (const [k, [v]] of update.values) found[name].set(k, v) },
    close: () => {},
  })
}
let start = process.hrtime.bigint()
await service.update('rows', [...held.entries()])
const load = Number(process.hrtime.bigint() - start) / 1e9
const times = []
for (let i = 0; i < edits.length; i += 3) {
  const [key, before, after] = edits.slice(i, i + 3)
  start = process.hrtime.bigint()
  const list = held.get(key)
  list[list.indexOf(before)] = after
  await service.update('rows', [[key, list]])
  times.push(Number(process.hrtime.bigint() - start) / 1e9)
}
const total = (m) => [...m.values()].reduce((a, b) => a + b, 0)
const line = JSON.stringify({ load, times, answer: [total(found.sums), total(found.mins)] })
// The runtime keeps Node alive; leaving before the pipe is drained would cut the line.
process.stdout.write(line + '\n', () => process.exit(0))
