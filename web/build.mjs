// Builds the page into the folder that the program embeds. The names of files change with what is in them.
import { build } from 'esbuild'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { gzipSync } from 'node:zlib'

const out = path.resolve(import.meta.dirname, '../internal/page/dist')
await rm(out, { recursive: true, force: true })
await mkdir(out, { recursive: true })
const made = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: ['src/main.tsx', 'src/style.css'],
  entryNames: '[name]-[hash]',
  outdir: path.join(out, 'assets'),
  bundle: true, minify: true, format: 'esm', target: 'es2022', legalComments: 'none', charset: 'utf8',
  jsx: 'automatic', jsxImportSource: 'preact', metafile: true,
})
let html = await readFile(path.join(import.meta.dirname, 'src/index.html'), 'utf8')
let size = 0
for (const [file, is] of Object.entries(made.metafile.outputs)) {
  html = html.replace(path.basename(is.entryPoint ?? ''), path.basename(file))
  size += gzipSync(await readFile(path.join(import.meta.dirname, file)), { level: 9 }).length
}
await writeFile(path.join(out, 'index.html'), html)
console.log(`${(size / 1024).toFixed(1)} KiB compressed`)
