// All jobs: the columns of `mlbatch ps`.
import { computed } from '@preact/signals'
import { count, soon, span } from './format'
import { go, jobAddress, param, setParam } from './router'
import { jobs, now } from './store'
import { Ago, Empty, sorted, State, Table, Unless, useTitle, type Column } from './ui'
import type { Job, JobView } from './views'

const order = ['Running', 'Starting', 'Resetting', 'Stopping', 'Waiting', 'Held', 'Failed', 'Succeeded', 'Unmanaged']

// Words of a job that are searched, in small letters.
const text = (j: Job) => `${j.namespace}/${j.name} ${j.title ?? ''} ${j.kind} ${j.user ?? ''} ${j.queue ?? ''} ${j.clusterQueue ?? ''} ${j.reason ?? ''} ${(j.nodes ?? []).join(' ')}`.toLowerCase()

const place = (j: Job) => {
  if (j.state === 'Waiting') {
    const start = j.start?.p50 ? `about ${soon(j.start.p50, now.value)}` : j.start?.passed ? 'others go first' : ''
    return <>{j.position ? `#${j.position}` : ''}{j.position && start ? ' · ' : ''}{start}</>
  }
  if (j.trouble) return <span class="bad">{j.trouble}</span>
  if (j.nodes?.length) return <span class="dim" title={j.nodes.join(', ')}>{j.nodes[0]}{j.nodes.length > 1 && ` and ${j.nodes.length - 1} more`}</span>
  return <span class="dim" title={j.message}>{j.reason}</span>
}

const ended = (j: Job) => j.state === 'Succeeded' || j.state === 'Failed'

export const columns: Column<JobView>[] = [
  { name: 'Job', width: 'minmax(14rem, 2.2fr)', class: 'name', by: v => `${v.job.namespace}/${v.job.name}`, cell: ({ job: j }) => <><b>{j.title || j.name}</b><small>{j.namespace} · {j.kind}</small></> },
  { name: 'State', width: '8.5rem', by: v => order.indexOf(v.job.state), cell: ({ job: j }) => <State of={j.state} /> },
  { name: 'Start, nodes or trouble', width: 'minmax(9rem, 1.4fr)', by: v => v.job.position ?? (v.job.start?.p50 ? Date.parse(v.job.start.p50) : 1e15), cell: v => place(v.job) },
  { name: 'GPUs', width: '4.5rem', class: 'n', by: v => v.job.gpus, cell: ({ job: j }) => j.gpus || Object.values(j.slices ?? {}).reduce((a, b) => a + b, 0) || '–' },
  { name: 'Pods', width: '5.5rem', class: 'n', by: v => v.job.pods, cell: ({ job: j }) => <>{j.running}<span class="dim">/{j.pods}</span></> },
  { name: 'Queue', width: 'minmax(7rem, 1fr)', class: 'wide', by: v => v.job.clusterQueue ?? v.job.queue ?? '', cell: ({ job: j }) => j.clusterQueue ?? j.targetClusterQueue ?? j.queue },
  { name: 'User', width: 'minmax(6rem, .8fr)', class: 'wide', by: v => v.job.user ?? '', cell: ({ job: j }) => j.user || <span class="none">–</span> },
  { name: 'Priority', width: '5rem', class: 'n wide', by: v => v.job.priority ?? 0, cell: ({ job: j }) => j.priority ?? '' },
  { name: 'Evicted', width: '4.5rem', class: 'n wide', by: v => -(v.job.evictions ?? 0), cell: ({ job: j }) => j.evictions ? <span title={j.evictedBy}>{j.evictions}×</span> : '' },
  { name: 'Ran', width: '5rem', class: 'n wide', by: v => (v.job.started ? -Date.parse(v.job.started) : 0), cell: ({ job: j }) => (!j.started ? '' : ended(j) ? j.since && span(Date.parse(j.since) - Date.parse(j.started)) : <Ago at={j.started} />) },
  { name: 'Age', width: '5rem', class: 'n', by: v => -Date.parse(v.job.created), cell: ({ job: j }) => <Ago at={j.created} /> },
]

// A view that did not change is the same object, and its words are known.
const words = new WeakMap<JobView, string>()
const wordsOf = (v: JobView) => {
  let is = words.get(v)
  if (is === undefined) words.set(v, (is = text(v.job)))
  return is
}

const found = computed(() => {
  const asked = param('q').toLowerCase().split(/\s+/).filter(Boolean)
  const namespace = param('namespace')
  if (!asked.length && !namespace) return jobs.all.value
  return jobs.all.value.filter(v => (!namespace || v.job.namespace === namespace) && asked.every(w => wordsOf(v).includes(w)))
})

const byState = computed(() => {
  const n = new Map<string, number>()
  for (const v of found.value) n.set(v.job.state, (n.get(v.job.state) ?? 0) + 1)
  return n
})

const rows = computed(() => {
  const states = param('state').split(',').filter(Boolean)
  const shown = states.length ? found.value.filter(v => states.includes(v.job.state)) : found.value
  return sorted(shown, columns, param('sort') || 'State')
})

const namespaces = computed(() => [...new Set(jobs.all.value.map(v => v.job.namespace))].sort())

export function Jobs() {
  useTitle('Jobs')
  const states = param('state').split(',').filter(Boolean)
  const toggle = (s: string) => setParam('state', (states.includes(s) ? states.filter(x => x !== s) : [...states, s]).join(','))
  return <main class="fill"><h1 class="hidden">Jobs</h1>
    <div class="tools">
      <label class="search"><span class="hidden">Search jobs</span>
        <input type="search" id="search" placeholder="Search name, user, queue, node   /" value={param('q')} onInput={e => setParam('q', e.currentTarget.value)} />
      </label>
      <label><span class="hidden">Namespace</span>
        <select value={param('namespace')} onChange={e => setParam('namespace', e.currentTarget.value)}>
          <option value="">all namespaces</option>
          {namespaces.value.map(n => <option key={n}>{n}</option>)}
        </select>
      </label>
      <div class="chips" role="group" aria-label="States">
        {order.filter(s => byState.value.has(s) || states.includes(s)).map(s =>
          <button key={s} aria-pressed={states.includes(s)} onClick={() => toggle(s)}><State of={s} /> <b>{byState.value.get(s) ?? 0}</b></button>)}
      </div>
    </div>
    <Unless of={jobs} what="jobs">{() => rows.value.length
      ? <Table label={count(rows.value.length, 'job')} columns={columns} rows={rows.value} id={v => v.metadata.namespace + '/' + v.metadata.name}
          href={v => jobAddress(v.job.namespace, v.job.kind, v.job.name)} sort={param('sort') || 'State'} onSort={s => setParam('sort', s)} />
      : jobs.all.value.length
        ? <Empty title="No job is like that."><button onClick={() => go('/jobs')}>Show all</button></Empty>
        : <Empty title="There are no jobs yet."><p class="fine">Submit one: <code>mlbatch run --gpus 8 -N 2 -- python train.py</code></p></Empty>}
    </Unless>
  </main>
}
