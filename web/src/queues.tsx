// Queues: the tree of cohorts with what each has, uses, borrows and lends, and who waits in what order.
import { computed } from '@preact/signals'
import { amount, count, soon } from './format'
import { jobAddress, param, setParam } from './router'
import { jobs, localQueues, now, queues } from './store'
import { Ago, Bar, Empty, Panel, State, Unless, useTitle } from './ui'
import type { Queue } from './views'

type Sum = { nominal: number; used: number; borrowed: number; lent: number }

const sum = (q: Queue, resource: string): Sum => {
  const of = { nominal: 0, used: 0, borrowed: 0, lent: 0 }
  for (const s of q.resources ?? []) if (s.resource === resource) {
    of.nominal += amount(s.nominal); of.used += amount(s.used); of.borrowed += amount(s.borrowed); of.lent += amount(s.lent)
  }
  return of
}

// Resources that queues have, the one that people care for first.
const resources = computed(() => {
  const all = new Set<string>()
  for (const v of queues.all.value) for (const s of v.queue.resources ?? []) all.add(s.resource)
  const rank = (r: string) => (r.includes('gpu') ? 0 : r.includes('/') ? 1 : r === 'cpu' ? 2 : r === 'memory' ? 3 : 4)
  return [...all].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
})

const roots = computed(() => {
  const inside = new Map<string, Queue[]>()
  const cohorts = new Set(queues.all.value.filter(v => v.queue.kind === 'Cohort').map(v => v.queue.name))
  for (const v of queues.all.value) {
    const parent = v.queue.parent && cohorts.has(v.queue.parent) ? v.queue.parent : v.queue.parent ? '?' + v.queue.parent : ''
    inside.set(parent, [...(inside.get(parent) ?? []), v.queue])
  }
  for (const l of inside.values()) l.sort((a, b) => (a.kind === b.kind ? (a.name < b.name ? -1 : 1) : a.kind === 'Cohort' ? -1 : 1))
  return inside
})

export function Queues() {
  useTitle('Queues')
  const resource = param('resource') || resources.value[0] || ''
  const chosen = param('queue')
  const missing = [...roots.value.keys()].filter(k => k.startsWith('?'))
  if (queues.refused.value && localQueues.all.value.length) return <Own />
  return <main><h1 class="hidden">Queues</h1>
    <Unless of={queues} what="queues">{() => !queues.all.value.length ? <Empty title="There are no queues yet."><p class="fine"><code>mlbatch team create blue --gpus 32</code> makes one.</p></Empty> : <div class="columns">
      <Panel title="Quota" aside={<label class="inline">of <select value={resource} onChange={e => setParam('resource', e.currentTarget.value)}>{resources.value.map(r => <option key={r}>{r}</option>)}</select></label>}>
        <p class="legend"><span><i class="go" /> used of its own</span><span><i class="wait" /> borrowed</span><span><i class="lent" /> lent to others</span><span><i class="free" /> free</span></p>
        <ul class="tree">
          {(roots.value.get('') ?? []).map(q => <Branch key={q.kind + q.name} q={q} resource={resource} chosen={chosen} />)}
          {missing.map(m => <li key={m}><div class="branch"><b>{m.slice(1)}</b><small>cohort without an object</small></div><ul>{roots.value.get(m)!.map(q => <Branch key={q.name} q={q} resource={resource} chosen={chosen} />)}</ul></li>)}
        </ul>
      </Panel>
      <Line queue={chosen} />
    </div>}</Unless>
  </main>
}

// Own are the LocalQueues of whoever may not see ClusterQueues: what their jobs use, of the quota behind them.
function Own() {
  const all = localQueues.all.value.map(v => v.queue).sort((a, b) => (a.namespace! + '/' + a.name < b.namespace! + '/' + b.name ? -1 : 1))
  const main = all.flatMap(q => q.resources ?? []).find(s => s.resource.includes('gpu'))?.resource ?? all[0]?.resources?.[0]?.resource ?? ''
  return <main><h1 class="hidden">Queues</h1><div class="columns">
    <Panel title="Your queues" aside={<span class="dim">{main}</span>}>
      <ul class="tree">{all.map(q => {
        const s = sum(q, main)
        return <li key={q.namespace + '/' + q.name}><div class="branch">
          <b title={q.parent}>{q.namespace}/{q.name}</b>
          <small>{q.state && q.state !== 'active' && <State of="Held">{q.state}</State>}</small>
          <Bar label={`${main} of ${q.namespace}/${q.name}`} whole={Math.max(s.nominal, s.used)} parts={[{ n: Math.min(s.used, s.nominal), tone: 'go', word: 'used' }, { n: Math.max(0, s.used - s.nominal), tone: 'wait', word: 'borrowed' }]} />
          <span class="n amount">{s.used}{s.nominal > 0 && <span class="dim"> / {s.nominal}</span>}</span>
          <span class="n dim">{q.running} run{q.waiting ? <>, <b>{q.waiting} wait</b></> : ''}</span>
        </div></li>
      })}</ul>
    </Panel>
    <Line queue="" />
  </div></main>
}

function Branch({ q, resource, chosen }: { q: Queue; resource: string; chosen: string }) {
  const s = sum(q, resource)
  const own = Math.min(s.used, s.nominal), over = q.parent && q.kind === 'ClusterQueue' ? Math.max(0, s.used - s.nominal) : 0
  const inside = q.kind === 'Cohort' ? roots.value.get(q.name) ?? [] : []
  const g = (n: number) => (resource === 'memory' ? `${Math.round(n / 2 ** 30)} Gi` : Math.round(n * 10) / 10)
  return <li>
    <div class={`branch ${q.kind === 'ClusterQueue' && q.name === chosen ? 'chosen' : ''}`}>
      {q.kind === 'ClusterQueue' ? <button class="link" aria-pressed={q.name === chosen} onClick={() => setParam('queue', q.name === chosen ? '' : q.name)}><b>{q.name}</b></button> : <b>{q.name}</b>}
      <small>{q.kind === 'Cohort' ? 'cohort' : q.state && q.state !== 'active' ? <State of="Held">{q.state}</State> : ''}</small>
      <Bar label={`${resource} of ${q.name}`} whole={Math.max(s.nominal, s.used)} parts={[{ n: own, tone: 'go', word: 'used of its own' }, { n: over, tone: 'wait', word: 'borrowed' }, { n: Math.min(s.lent, s.nominal - own), tone: 'lent', word: 'lent' }]} />
      <span class="n amount">{g(s.used)}<span class="dim"> / {g(s.nominal)}</span></span>
      <span class="n dim">{q.running} run{q.waiting ? <>, <b>{q.waiting} wait</b></> : ''}</span>
    </div>
    {inside.length > 0 && <ul>{inside.map(i => <Branch key={i.kind + i.name} q={i} resource={resource} chosen={chosen} />)}</ul>}
  </li>
}

// Line of the jobs that wait in a queue, in the order in which they are looked at; of all queues, if none is chosen.
function Line({ queue }: { queue: string }) {
  const all = jobs.all.value.map(v => v.job).filter(j => (j.state === 'Waiting' || j.state === 'Held') && (!queue || (j.clusterQueue ?? j.targetClusterQueue) === queue))
  all.sort((a, b) => (a.position ?? 1e9) - (b.position ?? 1e9) || (a.created < b.created ? -1 : 1))
  return <Panel title={queue ? `The line of ${queue}` : 'Who waits'} aside={<span class="dim">{count(all.length, 'job')}</span>}>
    {all.length ? <ol class="line">{all.slice(0, 200).map(j => <li key={j.namespace + j.kind + j.name}>
      <span class="n place">{j.position ? `#${j.position}` : j.state === 'Held' ? '‖' : ''}</span>
      <a href={jobAddress(j.namespace, j.kind, j.name)}><b>{j.title || j.name}</b> <small>{j.namespace}{!queue && (j.targetClusterQueue ?? j.clusterQueue) ? ` · ${j.targetClusterQueue ?? j.clusterQueue}` : ''}</small></a>
      <span class="n">{count(j.gpus, 'GPU')}</span>
      <span class="dim">{j.start?.p50 ? `about ${soon(j.start.p50, now.value)}` : j.reason}</span>
      <span class="n dim"><Ago at={j.created} /></span>
    </li>)}</ol> : <Empty title="Nobody waits." />}
  </Panel>
}
