// d2ts: sum and min per key over rows from raw int64 files; see bench/reactive.py.
// node reactive_d2ts.mjs <folder>  ->  one JSON line
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
const folder = process.argv[2]
const require = createRequire(folder + '/')
const { D2, MultiSet, output, reduce } =
  await import(pathToFileURL(require.resolve('@electric-sql/d2ts')))

const read = (name) => {
  const bytes = readFileSync(`${folder}/${name}.i64`)
  return Array.from(new BigInt64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8), Number)
}
const keys = read('keys'), values = read('values'), edits = read('edits')
const sums = new Map(), mins = new Map()
const follow = (target) => output((message) => {
  if (!message.data?.collection) return  // a frontier
  for (const [[key, value], n] of message.data.collection.getInner()) {
    if (n > 0) target.set(key, value)
  }
})
const graph = new D2({ initialFrontier: 0 })
const input = graph.newInput()
input.pipe(reduce((vs) => [[vs.reduce((a, [v, n]) => a + v * n, 0), 1]]), follow(sums))
const least = (vs) => {
  // A value that left may still be listed beside its removal.
  const held = new Map()
  for (const [v, n] of vs) held.set(v, (held.get(v) ?? 0) + n)
  let found = Infinity
  for (const [v, n] of held) if (n > 0 && v < found) found = v
  return [[found, 1]]
}
input.pipe(reduce(least), follow(mins))
graph.finalize()
let version = 0
const commit = (rows) => {
  input.sendData(version, new MultiSet(rows))
  input.sendFrontier(++version)
  graph.run()
}
let start = process.hrtime.bigint()
commit(keys.map((key, i) => [[key, values[i]], 1]))
const load = Number(process.hrtime.bigint() - start) / 1e9
const times = []
for (let i = 0; i < edits.length; i += 3) {
  const [key, before, after] = edits.slice(i, i + 3)
  start = process.hrtime.bigint()
  commit([[[key, before], -1], [[key, after], 1]])
  times.push(Number(process.hrtime.bigint() - start) / 1e9)
}
const total = (m) => [...m.values()].reduce((a, b) => a + b, 0)
console.log(JSON.stringify({ load, times, answer: [total(sums), total(mins)] }))
