// Timeline: what ran, runs and will probably run. The future is what views say of it: a start as the forecast has it,
// with its range, and an end by the time limit, at the latest.
import { computed } from '@preact/signals'
import { count, soon, span } from './format'
import { jobAddress, param, setParam } from './router'
import { jobs, now } from './store'
import { Empty, State, Table, tone, Unless, useTitle, type Column } from './ui'
import type { Job, JobView } from './views'

const windows = { '1h': 1, '6h': 6, '1d': 24, '7d': 168 } as const
const minute = 60_000
const steps = [10, 30, 60, 120, 360, 720, 1440, 2880].map(m => m * minute)

type Window = { from: number; to: number; now: number }

// Marks of the time axis, at times that are round where the viewer is.
function marks(w: Window): number[] {
  const step = steps.find(s => (w.to - w.from) / s <= 8) ?? steps.at(-1)!
  const zone = new Date(w.now).getTimezoneOffset() * minute
  const out = []
  for (let t = Math.ceil((w.from - zone) / step) * step + zone; t < w.to; t += step) out.push(t)
  return out
}

const time = (at: string | undefined) => (at ? Date.parse(at) : undefined)

type Piece = { from: number; to: number; class: string; word: string }

function pieces(j: Job, w: Window): Piece[] {
  const out: Piece[] = []
  const created = Date.parse(j.created), started = time(j.started)
  const ended = j.state === 'Succeeded' || j.state === 'Failed'
  const put = (from: number, to: number, name: string, word: string) => out.push({ from, to: Math.max(to, from), class: name, word })
  if (started !== undefined) {
    put(created, started, 'queued', `waited ${span(started - created)}`)
    const end = ended ? time(j.since) ?? w.now : w.now
    put(started, end, tone(j.state), ended ? `${j.state} after ${span(end - started)}` : `runs for ${span(end - started)}`)
    if (!ended && j.timeLimitSeconds) {
      const latest = started + j.timeLimitSeconds * 1000
      if (latest > w.now) put(w.now, latest, 'until', `ends by its time limit at ${soon(new Date(latest).toISOString(), w.now)}, at the latest`)
    } else if (!ended) put(w.now, w.now + (w.to - w.now) / 8, 'open', 'no end is known')
  } else if (!ended) {
    put(created, w.now, 'queued', `waits for ${span(w.now - created)}`)
    const p50 = time(j.start?.p50), p90 = time(j.start?.p90)
    if (p50 !== undefined) put(p50, p90 ?? w.to, 'likely', `starts between ${soon(j.start!.p50!, w.now)}${p90 !== undefined ? ` and ${soon(j.start!.p90!, w.now)}` : ' and later than is looked at'}`)
  }
  return out.filter(p => p.to >= w.from && p.from <= w.to)
}

function Lane({ j, w }: { j: Job; w: Window }) {
  const x = (t: number) => (100 * (Math.min(Math.max(t, w.from), w.to) - w.from)) / (w.to - w.from)
  const all = pieces(j, w)
  return <span class="gantt" role="img" aria-label={all.map(p => p.word).join(', ') || 'nothing in this time'}>
    {all.map(p => <span key={p.class} class={p.class} title={p.word} style={{ left: `${x(p.from)}%`, width: `${x(p.to) - x(p.from)}%` }} />)}
    <i class="now" style={{ left: `${x(w.now)}%` }} />
  </span>
}

const order = ['Running', 'Starting', 'Resetting', 'Stopping', 'Waiting', 'Held', 'Failed', 'Succeeded']
const rank = (j: Job) => {
  const at = order.indexOf(j.state)
  return at < 0 ? order.length : at
}
const within = (j: Job) => (j.state === 'Succeeded' || j.state === 'Failed' ? -(time(j.since) ?? 0) : j.state === 'Waiting' ? time(j.start?.p50) ?? 1e14 + (j.position ?? 1e6) : time(j.started) ?? Date.parse(j.created))

const moment = computed(() => Math.floor(now.value / 10_000) * 10_000) // it moves every ten seconds

export function Timeline() {
  useTitle('Timeline')
  const chosen = (param('window') in windows ? param('window') : '6h') as keyof typeof windows
  const w: Window = { from: moment.value - windows[chosen] * 60 * minute, to: moment.value + windows[chosen] * 60 * minute, now: moment.value }
  const rows = jobs.all.value.filter(v => v.job.state !== 'Unmanaged' && pieces(v.job, w).length)
  rows.sort((a, b) => rank(a.job) - rank(b.job) || within(a.job) - within(b.job))
  const x = (t: number) => `${(100 * (t - w.from)) / (w.to - w.from)}%`
  const axis = <span class="axis" aria-hidden="true">{marks(w).map(t => <span key={t} style={{ left: x(t) }}>{soon(new Date(t).toISOString(), w.now)}</span>)}<i class="now" style={{ left: '50%' }} /></span>
  const columns: Column<JobView>[] = [
    { name: 'Job', width: 'minmax(9rem, 17rem)', class: 'name', cell: ({ job: j }) => <><b>{j.title || j.name}</b><small>{j.namespace}</small></> },
    { name: 'State', width: '7rem', cell: ({ job: j }) => <State of={j.state} /> },
    { name: 'GPUs', width: '3.5rem', class: 'n', cell: ({ job: j }) => j.gpus || '–' },
    { name: 'Time', head: axis, width: 'minmax(16rem, 1fr)', class: 'time', cell: ({ job: j }) => <Lane j={j} w={w} /> },
  ]
  return <main class="fill"><h1 class="hidden">Timeline</h1>
    <div class="tools">
      <div class="chips" role="group" aria-label="How much time">{Object.keys(windows).map(k =>
        <button key={k} aria-pressed={k === chosen} onClick={() => setParam('window', k)}>±{k}</button>)}</div>
      <p class="legend flat"><span><i class="queued" /> waits</span><span><i class="go" /> runs</span><span><i class="until" /> until its time limit</span><span><i class="likely" /> will probably start within</span><span><i class="done" /> ended</span><span><i class="bad" /> failed</span></p>
    </div>
    <Unless of={jobs} what="jobs">{() => rows.length
      ? <Table label={`${count(rows.length, 'job')} in time`} columns={columns} rows={rows} id={v => `${v.metadata.namespace}/${v.metadata.name}`}
          href={v => jobAddress(v.job.namespace, v.job.kind, v.job.name)} sort="" onSort={() => {}} class="gantts" />
      : <Empty title="Nothing ran, runs or waits in this time."><p class="fine">Jobs that ended stay here for as long as their objects do. <code>mlbatch hist</code> has all.</p></Empty>}
    </Unless>
  </main>
}
