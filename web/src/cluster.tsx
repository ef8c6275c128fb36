// The cluster: racks and other domains drawn with their nodes, and a cell for each GPU, coloured by whose job has it.
import { computed } from '@preact/signals'
import { count } from './format'
import { param, setParam } from './router'
import { domains, nodes } from './store'
import { Ago, Bar, Empty, Facts, Panel, State, tone, Unless, useTitle } from './ui'
import type { Domain, Node } from './views'

// Colour of a team: one of eight that differ for the colour-blind, the same as long as the name is.
const hue = (team: string) => {
  let h = 0
  for (const c of team) h = (h * 31 + c.charCodeAt(0)) >>> 0
  return h % 8
}

type Rack = { name: string; path: string[]; domain?: Domain; nodes: Node[] }

// Nodes by the lowest domain that they are in.
const racks = computed<Rack[]>(() => {
  const by = new Map<string, Rack>()
  const known = new Map(domains.all.value.map(v => [[...(v.domain.path ?? []), v.domain.name].join('/'), v.domain]))
  for (const { node } of nodes.all.value) {
    const path = node.domain ?? []
    const key = path.join('/')
    const rack = by.get(key) ?? { name: path.at(-1) ?? '', path: path.slice(0, -1), nodes: [], ...(known.get(key) && { domain: known.get(key)! }) }
    rack.nodes.push(node)
    by.set(key, rack)
  }
  const text = new Intl.Collator('en', { numeric: true })
  const all = [...by.values()].sort((a, b) => text.compare(a.path.join('/'), b.path.join('/')) || text.compare(a.name, b.name))
  for (const r of all) r.nodes.sort((a, b) => text.compare(a.name, b.name))
  return all
})

const sums = computed(() => {
  let gpus = 0, free = 0, out = 0, whole = 0
  const teams = new Map<string, number>()
  for (const { node: n } of nodes.all.value) {
    gpus += n.gpus
    const takes = n.state === 'Ready' || n.state === 'Warned'
    if (!takes) out++
    else { free += n.free ?? 0; if (n.gpus && n.free === n.gpus) whole++ }
    for (const [job, k] of Object.entries(n.jobs ?? {})) { const t = job.split('/')[0]!; teams.set(t, (teams.get(t) ?? 0) + k) }
  }
  return { gpus, free, out, whole, teams: [...teams].sort((a, b) => b[1] - a[1]) }
})

export function Cluster() {
  useTitle('Cluster')
  const s = sums.value, team = param('team')
  if (nodes.refused.value && domains.all.value.length) return <Sums />
  return <main><h1 class="hidden">Cluster</h1>
    <Unless of={nodes} what="nodes">{() => !nodes.all.value.length ? <Empty title="There are no nodes." /> : <>
      <div class="figures">
        <div><b>{s.gpus.toLocaleString('en')}</b> GPUs on {count(nodes.all.value.length, 'node')}</div>
        <div><b>{s.free.toLocaleString('en')}</b> free</div>
        <div><b>{s.whole}</b> whole {s.whole === 1 ? 'node' : 'nodes'} free</div>
        <div class={s.out ? 'bad' : ''}><b>{s.out}</b> out of service</div>
      </div>
      <p class="legend" role="group" aria-label="Teams">{s.teams.map(([t, n]) => <button key={t} aria-pressed={t === team} onClick={() => setParam('team', t === team ? '' : t)}><i class={`team t${hue(t)}`} /> {t} <b>{n}</b></button>)}<span><i class="free" /> free</span><span><i class="out" /> out of service</span></p>
      <Whole />
      <div class="racks">{racks.value.map(r => <section class="rack" key={[...r.path, r.name].join('/')}>
        <header><h2>{r.name || 'nodes'}</h2>{r.path.length > 0 && <small>{r.path.join(' / ')}</small>}<span class="dim">{r.domain?.wholeNodes !== undefined ? `${r.domain.wholeNodes} of ${r.nodes.length} whole` : count(r.nodes.length, 'node')}</span></header>
        <ul>{r.nodes.map(n => <li key={n.name}><NodeCells n={n} team={team} /></li>)}</ul>
      </section>)}</div>
    </>}</Unless>
  </main>
}

// Sums of racks and other domains, for whoever may not see nodes.
function Sums() {
  return <main><h1 class="hidden">Cluster</h1>
    <p class="most"><span>You may not see nodes. This is free in each domain of them:</span></p>
    <div class="racks">{domains.all.value.map(({ metadata, domain: d }) => <section class="rack" key={metadata.name}>
      <header><h2>{d.name}</h2><small>{[...(d.path ?? []), d.level.split('/').at(-1)].join(' / ')}</small></header>
      <Bar label={`GPUs of ${d.name}`} whole={d.gpus} parts={[{ n: d.gpus - (d.free ?? 0), tone: 'go', word: 'in use' }]} />
      <p class="fine">{d.free ?? '?'} of {count(d.gpus, 'GPU')} free{d.wholeNodes !== undefined && <>, {count(d.wholeNodes, 'whole node')}</>}; {d.ready} of {count(d.nodes, 'node')} ready</p>
    </section>)}</div>
  </main>
}

// Where the most is free, at each level that views tell of.
function Whole() {
  const by = new Map<string, Domain[]>()
  for (const { domain: d } of domains.all.value) if (d.wholeNodes !== undefined) by.set(d.level, [...(by.get(d.level) ?? []), d])
  if (!by.size) return null
  return <p class="most">{[...by].map(([level, all]) => {
    const d = all.reduce((a, b) => (b.wholeNodes! > a.wholeNodes! || (b.wholeNodes === a.wholeNodes && (b.free ?? 0) > (a.free ?? 0)) ? b : a))
    return <span key={level}>Most free in one <code>{level.split('/').at(-1)}</code>: <b>{d.name}</b> with {d.wholeNodes ? count(d.wholeNodes, 'whole node') : 'no whole node'} and {count(d.free ?? 0, 'free GPU')}</span>
  })}</p>
}

function NodeCells({ n, team }: { n: Node; team: string }) {
  const cells: { job?: string }[] = []
  for (const [job, k] of Object.entries(n.jobs ?? {})) for (let i = 0; i < k && cells.length < n.gpus; i++) cells.push({ job })
  while (cells.length < n.gpus) cells.push({})
  const takes = n.state === 'Ready' || n.state === 'Warned'
  const jobs = Object.entries(n.jobs ?? {}).map(([j, k]) => `${j}: ${k}`).join('\n')
  return <a class={`node ${tone(n.state)}${takes ? '' : ' broken'}`} href={`/nodes/${encodeURIComponent(n.name)}`} aria-label={`${n.name}: ${n.state}${n.why ? `, ${n.why}` : ''}, ${n.free ?? 'nobody knows how many'} of ${n.gpus} GPUs free`} title={`${n.name}\n${n.state}${n.why ? ': ' + n.why : ''}\n${n.free ?? '?'} of ${n.gpus} GPUs free${jobs ? '\n' + jobs : ''}`}>
    <span class="who">{n.state !== 'Ready' && <State of={n.state}>{''}</State>}{n.name}</span>
    <span class="cells">{cells.map((c, i) => {
      const t = c.job?.split('/')[0]
      return <i key={i} class={t ? `team t${hue(t)}${team && team !== t ? ' faint' : ''}` : takes ? 'free' : 'out'} />
    })}</span>
  </a>
}

export function NodeScreen({ name }: { name: string }) {
  useTitle(name)
  return <main><Unless of={nodes} what="nodes">{() => {
    const n = nodes.items.value?.get('/' + name)?.node
    if (!n) return <Empty title={`There is no node ${name}.`} />
    return <>
      <header class={`hero ${tone(n.state)}`}><div><h1>{n.name}</h1><p>{(n.domain ?? []).join(' / ')}</p></div><div class="big"><State of={n.state} /><small>{n.why}</small></div></header>
      <div class="columns">
        <div>
          <Panel title="GPUs"><NodeCells n={n} team="" />
            <ul class="plain">{Object.entries(n.jobs ?? {}).map(([j, k]) => <li key={j}><a href={`/jobs?q=${encodeURIComponent(j)}`}>{j}</a> <span class="dim">{count(k, 'GPU')}</span></li>)}</ul>
          </Panel>
          {n.health && <Panel title="Health"><p class="lead"><State of={n.health.state === 'Suspect' ? 'Warned' : 'Closed'}>{n.health.state}</State> {n.health.finding}</p>
            {n.health.since && <p class="fine">since <Ago at={n.health.since} /></p>}
            {n.health.held && <p class="note">It would be out of service, but too many nodes are already.</p>}</Panel>}
          {n.drained && <Panel title="Drained"><p>by <b>{n.drained.by}</b>, <Ago at={n.drained.at} /> ago{n.drained.reason && <>: {n.drained.reason}</>}</p></Panel>}
        </div>
        <aside><Panel title="Facts"><Facts of={[['GPUs', n.gpus], ['Free', n.free], ['Used since', n.gpusUsedSince && <><Ago at={n.gpusUsedSince} /> on average</>], ['Pods', n.pods], ['Age', <Ago at={n.created} />]]} /></Panel></aside>
      </div>
    </>
  }}</Unless></main>
}
