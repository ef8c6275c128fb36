// One job: why it is where it is, what happened, its pods and what they write.
import { useSignal } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import { count, soon, span, when } from './format'
import { ask, jobs, now } from './store'
import { Ago, Empty, Facts, Log, Panel, State, tone, useTitle } from './ui'
import type { Attempt, Details, JobDetails, JobExplanation, Pod } from './views'

export function JobScreen({ namespace, kind, name }: { namespace: string; kind: string; name: string }) {
  useTitle(`${namespace}/${name}`)
  const base = `/apis/view.mlbatch.dev/v1alpha1/namespaces/${encodeURIComponent(namespace)}/jobviews/${encodeURIComponent(`${kind}.${name}`)}`
  const [why, details] = useMemo(() => [ask<JobExplanation>(`${base}/explanation`), ask<JobDetails>(`${base}/details`)], [base])
  useEffect(() => () => { why.stop(); details.stop() }, [base])
  const row = jobs.items.value?.get(`${namespace}/${kind}.${name}`)?.job
  const w = why.answer.value, d = details.answer.value
  if (!row && !d.is) {
    if (d.failed) return <main><Empty title={`There is no ${kind} ${namespace}/${name}, or you may not see it.`}><p class="fine">{d.failed}</p></Empty></main>
    return <main><div class="loading" role="status"><i /><i /><i /><span class="hidden">Reading the job</span></div></main>
  }
  const is = d.is?.details, state = row?.state ?? is?.state ?? ''
  const gone = !row && jobs.known
  return <main class="job">
    <header class={`hero ${tone(state)}`}>
      <div><h1>{row?.title || name}</h1><p>{row?.kind ?? kind} in <a href={`/jobs?namespace=${encodeURIComponent(namespace)}`}>{namespace}</a>{row?.title && row.title !== name && <> · <code>{name}</code></>}</p></div>
      <div class="big"><State of={state} /><small>{gone ? 'it is gone' : row?.since && <>for <Ago at={row.since} /></>}{state === 'Waiting' && row?.position && <> · #{row.position} in the line</>}{row?.start?.p50 && state === 'Waiting' && <> · starts about {soon(row.start.p50, now.value)}{row.start.p90 && <> – {soon(row.start.p90, now.value)}</>}</>}</small></div>
    </header>
    <div class="columns">
      <div>
        <Panel title={state === 'Waiting' ? 'Why it waits' : 'How it stands'} aside={w.failed && <span class="note">not up to date: {w.failed}</span>}>
          {w.is ? <div class="prose">{(w.is.explanation.sentences ?? []).map((s, i) => <p key={i} class={i ? '' : 'lead'}>{s}</p>)}
            {(w.is.explanation.advice?.length || w.is.explanation.helps) && <div class="advice"><h3>What helps</h3>
              {w.is.explanation.helps && <p>{w.is.explanation.helps}</p>}
              <ul>{w.is.explanation.advice?.map((s, i) => <li key={i}>{s}</li>)}</ul></div>}
          </div> : <p class="lead">{row?.message || is?.message || '…'}</p>}
        </Panel>
        {is?.eviction && <Panel title="Why it was stopped" aside={<span class="dim"><Ago at={is.eviction.at} /> ago</span>}>
          <p class="lead">{is.eviction.message || is.eviction.cause || is.eviction.reason}</p>
          {is.eviction.rule && <p>{is.eviction.rule}</p>}
          <p class="fine">It had run {span(is.eviction.ranSeconds * 1000)}{is.eviction.gpuHours > 0 && <>, which were {is.eviction.gpuHours.toFixed(1)} GPU hours</>}.</p>
        </Panel>}
        {is?.failure && <Panel title="What failed first">
          <p>{is.failure.why}</p>
          <Facts of={[['Pod', <code>{is.failure.pod}</code>], ['Node', is.failure.node], ['Rank', is.failure.rank], ['Exit code', is.failure.exitCode], ['At', when(is.failure.at)]]} />
          {is.failure.log && <Log text={is.failure.log.join('\n')} />}
        </Panel>}
        {is?.pods && is.pods.length > 0 && <Pods namespace={namespace} pods={is.pods} />}
        {is?.attempts && is.attempts.length > 0 && <Attempts of={is} />}
      </div>
      <aside>
        <Panel title="Facts"><Facts of={[
          ['GPUs', row?.gpus ? (row.gpusHeld && row.gpusHeld !== row.gpus ? `${row.gpusHeld} of ${row.gpus}` : row.gpus) : undefined],
          ['Pods', row ? `${row.running} of ${row.pods} run` : undefined],
          ['Place in the line', row?.position && `#${row.position}`],
          ['Expected start', row?.start?.p50 && <>{soon(row.start.p50, now.value)}{row.start.p90 && <span class="dim"> – {soon(row.start.p90, now.value)}</span>}{row.start.known === 0 && <small> a guess: no job like it has ended</small>}</>],
          ['Queue', row?.clusterQueue ?? row?.targetClusterQueue ? <a href={`/queues?queue=${encodeURIComponent((row?.clusterQueue ?? row?.targetClusterQueue)!)}`}>{row?.clusterQueue ?? row?.targetClusterQueue}</a> : row?.queue],
          ['User', row?.user || is?.user],
          ['Priority', row?.priority !== undefined && <>{row.priority}{row.priorityClass && <span class="dim"> {row.priorityClass}</span>}</>],
          ['Flavors', is?.flavors?.join(', ')],
          ['Started', row?.started && <><Ago at={row.started} /> ago</>],
          ['Time limit', row?.timeLimitSeconds && span(row.timeLimitSeconds * 1000)],
          ['Evicted', row?.evictedBy],
          ['Lost to it', is?.lost && `${is.lost.gpuHours.toFixed(1)} GPU hours`],
          ['Time well spent', is?.ettr !== undefined && `${(100 * is.ettr).toFixed(1)} %`],
          ['Progress', is?.progress],
          ['Retries', is?.retries && `${is.retries.used}${is.retries.limit !== undefined ? ` of ${is.retries.limit}` : ''}`],
          ['Avoids', is?.retries?.avoidedNodes?.join(', ')],
        ]} /></Panel>
        {is?.timeline && <Panel title="What happened"><ol class="timeline">{is.timeline.map((m, i) => <li key={i}>
          <time dateTime={m.at} title={when(m.at)}>{soon(m.at, now.value)}</time><div>{m.text.charAt(0).toUpperCase() + m.text.slice(1)}{m.seconds !== undefined && <small> after {span(m.seconds * 1000)}</small>}</div></li>)}</ol></Panel>}
      </aside>
    </div>
  </main>
}

function Pods({ namespace, pods }: { namespace: string; pods: Pod[] }) {
  const chosen = useSignal('')
  const pod = pods.find(p => p.name === chosen.value)
  return <Panel title="Pods" aside={<span class="dim">{count(pods.length, 'pod')}, by rank; choose one for its log</span>}>
    <div class="ranks" role="group" aria-label="Pods by rank">{pods.map(p => <button key={p.name} class={tone(p.state)} aria-pressed={p.name === chosen.value}
      title={`${p.name}\n${p.state}${p.why ? ': ' + p.why : ''}${p.node ? '\non ' + p.node : ''}`} onClick={() => (chosen.value = p.name === chosen.value ? '' : p.name)}>
      {p.rank >= 0 ? p.rank : p.index}</button>)}</div>
    {pod && <PodLog key={pod.name} namespace={namespace} pod={pod} />}
  </Panel>
}

function PodLog({ namespace, pod }: { namespace: string; pod: Pod }) {
  const log = useMemo(() => ask<string>(`/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod.name)}/log?tailLines=500&limitBytes=262144`, 2000), [pod.name])
  useEffect(() => () => log.stop(), [pod.name])
  const a = log.answer.value
  return <div class="podlog">
    <p><State of={pod.state} /> <code>{pod.name}</code>{pod.node && <> on <a href={`/nodes/${encodeURIComponent(pod.node)}`}>{pod.node}</a></>}{pod.why && <span class="dim"> {pod.why}</span>}{pod.restarts > 0 && <span class="dim"> restarted {pod.restarts}×</span>}</p>
    {a.failed && !a.is ? <p class="note">No log: {a.failed}</p> : <Log text={a.is ?? ''} />}
  </div>
}

function Attempts({ of }: { of: Details }) {
  const all = of.attempts!
  const first = Date.parse(all[0]!.start), last = Math.max(...all.map(a => (a.end ? Date.parse(a.end) : now.value)))
  const x = (at: number) => `${(100 * (at - first)) / Math.max(last - first, 1)}%`
  const bar = (a: Attempt) => {
    const from = Date.parse(a.start), to = a.end ? Date.parse(a.end) : now.value
    const ready = a.ready ? Date.parse(a.ready) : to
    return <div class="lane"><span class="soon" style={{ left: x(from), width: `calc(${x(ready - 0)} - ${x(from)})` }} title={`starting, ${span(ready - from)}`} />
      <span class={a.end ? (a.category ? 'bad' : 'done') : 'go'} style={{ left: x(ready), width: `calc(${x(to)} - ${x(ready)})` }} title={`ran ${span(to - ready)}`} /></div>
  }
  return <Panel title="Attempts" aside={<span class="dim">{count(of.attemptsTotal.attempts ?? all.length, 'attempt')}</span>}>
    <ol class="attempts">{all.map((a, i) => <li key={a.start + i}>
      {bar(a)}
      <p><b>{when(a.start)}</b>{a.end ? <> ended after {span(Date.parse(a.end) - Date.parse(a.start))}: <span class={a.category ? 'bad' : ''}>{a.category ?? a.reason}</span></> : ' runs'}{a.message && <span class="dim"> {a.message}</span>}</p>
      {(a.failedNodes?.length || a.replacedPods || a.lostGPUSeconds) && <p class="fine">
        {a.failedNodes?.length ? <>failed on {a.failedNodes.join(', ')}. </> : ''}{a.replacedPods ? <>{count(a.replacedPods, 'pod')} replaced. </> : ''}{a.lostGPUSeconds ? <>{(a.lostGPUSeconds / 3600).toFixed(1)} GPU hours lost.</> : ''}</p>}
    </li>)}</ol>
  </Panel>
}
