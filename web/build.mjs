// Builds the page into the folder that the program embeds. The names of files change with what is in them.
import { build } from 'esbuild'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { gzipSync } from 'node:zlib'

// What all of it may take, compressed.
const most = 120

const here = import.meta.dirname
const out = path.resolve(here, '../internal/page/dist')
await rm(out, { recursive: true, force: true })
await mkdir(out, { recursive: true })
const made = await build({
  absWorkingDir: here,
  entryPoints: ['src/main.tsx', 'src/style.css'],
  entryNames: '[name]-[hash]',
  outdir: path.join(out, 'assets'),
  bundle: true, minify: true, format: 'esm', target: 'es2022', legalComments: 'none', charset: 'utf8',
  jsx: 'automatic', jsxImportSource: 'preact', metafile: true,
})
let html = await readFile(path.join(here, 'src/index.html'), 'utf8')
let size = 0
for (const [file, is] of Object.entries(made.metafile.outputs)) {
  html = html.replace(path.basename(is.entryPoint ?? ''), path.basename(file))
  size += gzipSync(await readFile(path.join(here, file)), { level: 9 }).length
}
await writeFile(path.join(out, 'index.html'), html)

// The licences of all packages of which something is in the page: they want to be kept with it.
const packages = new Set(Object.keys(made.metafile.inputs).map(f => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(f)?.[1]).filter(Boolean))
let licences = 'The page is made of packages of others, too. These are their licences.\n'
for (const name of [...packages].sort()) {
  const dir = path.join(here, 'node_modules', name)
  const file = (await readdir(dir)).find(f => /^licen[cs]e/i.test(f))
  if (!file) throw new Error(`${name} has no licence`)
  const { version, license } = JSON.parse(await readFile(path.join(dir, 'package.json'), 'utf8'))
  licences += `\n${'='.repeat(72)}\n${name} ${version} (${license})\n\n${(await readFile(path.join(dir, file), 'utf8')).trim()}\n`
}
await writeFile(path.join(out, 'licenses.txt'), licences)
console.log(`the page is ${(size / 1024).toFixed(1)} KiB compressed`)
if (size > most * 1024) throw new Error(`more than ${most} KiB`)
