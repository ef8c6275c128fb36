// Looks at the page in a real browser, for internal/page's TestThePageInABrowser: what is wrong is printed, a line each.
// It asks the test on its standard output for what a cluster does, and waits for the answer on its standard input.
import { chromium } from 'playwright-core'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import path from 'node:path'

const [url, program, pictures] = process.argv.slice(2)
const axe = await readFile(path.join(import.meta.dirname, 'node_modules/axe-core/axe.min.js'), 'utf8')
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const ask = async what => { console.log('ask ' + what); await answers.next() }
const wrong = what => console.log('wrong ' + what)
const fact = what => console.log('fact ' + what)

const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox'] })
const context = await browser.newContext({ viewport: { width: 1400, height: 860 }, colorScheme: 'light', timezoneId: 'UTC', locale: 'en-GB' })
const page = await context.newPage()
page.setDefaultTimeout(60_000)
let quiet = false // while the server is away
page.on('console', m => { if (m.type() === 'error' && !quiet) wrong(`console: ${m.text()}`) })
page.on('pageerror', e => wrong(`error: ${e}`))

const began = Date.now()
await page.goto(url)
await page.waitForSelector('.rows .row')
fact(`first rows after ${Date.now() - began} ms`)
if (page.url().includes('token')) wrong('the token stays in the address')

async function judge(screen) {
  const cdp = await context.newCDPSession(page)
  // In a world of its own, a script is no part of the page.
  const { frameTree } = await cdp.send('Page.getFrameTree')
  const { executionContextId } = await cdp.send('Page.createIsolatedWorld', { frameId: frameTree.frame.id })
  await cdp.send('Runtime.evaluate', { expression: axe, contextId: executionContextId })
  const { result } = await cdp.send('Runtime.evaluate', {
    expression: `axe.run(document).then(r => JSON.stringify(r.violations.map(v => v.id + ': ' + v.help + ' at ' + v.nodes.slice(0, 3).map(n => n.target.join(' ') + ' ' + n.failureSummary).join('; '))))`,
    contextId: executionContextId, awaitPromise: true, returnByValue: true,
  })
  for (const v of JSON.parse(result.value)) wrong(`${screen}: ${v}`)
  await cdp.detach()
}

const screens = [
  ['jobs', '/jobs', '.rows .row'], ['job-waiting', '/jobs/blue/job/waits', '.advice'], ['job-running', '/jobs/blue/job/runs', '.attempts'],
  ['cluster', '/nodes', '.rack'], ['node', '/nodes/node-1', '.hero'], ['queues', '/queues', '.branch'], ['timeline', '/timeline', '.gantt'],
]
for (const [look, width] of [['light', 1400], ['dark', 1400], ['dark', 400]]) {
  await page.emulateMedia({ colorScheme: look })
  await page.setViewportSize({ width, height: 860 })
  for (const [name, at, there] of screens) {
    await page.goto(new URL(at, url).href)
    await page.waitForSelector(there).catch(() => wrong(`${name}: there is no ${there}`))
    await page.waitForFunction(() => !document.querySelector('.loading'))
    await judge(`${name}, ${look}, ${width} wide`)
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    if (over > 1) wrong(`${name}: it is ${over} wider than ${width}`)
    if (pictures) await page.screenshot({ path: `${pictures}/${name}-${look}-${width}.png` })
  }
}

await page.emulateMedia({ colorScheme: 'light' })
await page.setViewportSize({ width: 1400, height: 860 })
await page.goto(new URL('/queues', url).href)
await page.waitForSelector('.branch')
await page.keyboard.press('/')
await page.waitForSelector('#search:focus').catch(() => wrong('/ does not search'))
await page.keyboard.type('waits')
await page.waitForFunction(() => document.querySelectorAll('.rows .row').length === 1).catch(() => wrong('a search does not find one job'))
if (new URL(page.url()).searchParams.get('q') !== 'waits') wrong('the search is not in the address')
await page.keyboard.press('Escape')
await page.keyboard.press('c')
await page.waitForSelector('.rack').catch(() => wrong('c does not lead to the cluster'))
await page.goBack()
await page.waitForFunction(() => document.querySelector('#search')?.value === 'waits').catch(() => wrong('back does not lead back to the search'))
await page.keyboard.press('?')
await page.waitForSelector('dialog[open]').catch(() => wrong('? does not show the keys'))
await judge('keys')
await page.keyboard.press('Escape')

await page.goto(new URL('/jobs', url).href)
await page.waitForSelector('.rows .row')
const rows = await page.locator('.rows .row').count()
if (rows > 100) wrong(`${rows} rows are in the document`)
const cdp = await context.newCDPSession(page)
await cdp.send('Performance.enable', { timeDomain: 'threadTicks' }) // others may have the processor, too
const script = async () => (await cdp.send('Performance.getMetrics')).metrics.find(m => m.name === 'ScriptDuration').value * 1000
const pause = 300, changes = 10
const idle = await (async () => { const a = await script(); await page.waitForTimeout(pause * changes); return await script() - a })()
const before = await script()
for (let i = 0; i < changes; i++) { await ask('change ' + i); await page.waitForTimeout(pause) }
const each = (await script() - before - idle) / changes
fact(`one change takes ${each.toFixed(1)} ms of script`)
if (each > 50) wrong(`one change of a job takes ${each.toFixed(1)} ms`)
await page.getByText(`change-${changes - 1}`).waitFor().catch(() => wrong('a change is not shown'))

await ask('tenant')
for (const [name, at, there] of [['cluster of a tenant', '/nodes', '.rack'], ['queues of a tenant', '/queues', '.branch']]) {
  await page.goto(new URL(at, url).href)
  await page.waitForSelector(there).catch(() => wrong(`${name}: there is no ${there}`))
  await judge(name)
}
await page.goto(new URL('/jobs', url).href)
await page.waitForSelector('.rows .row')

quiet = true
await ask('down')
await page.waitForSelector('.live.bad').catch(() => wrong('nothing says that nothing is heard'))
if (!await page.locator('.rows .row').count()) wrong('what was shown is gone while nothing is heard')
await ask('up')
await page.waitForSelector('.live.go').catch(() => wrong('the page does not come back'))
await ask('other')
await page.waitForSelector('.login').catch(() => wrong('a server that does not know the session is not told apart'))
quiet = false
await judge('log in')
await browser.close()
process.stdin.destroy() // nothing more is asked
