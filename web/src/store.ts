// What is known of the cluster: lists that one stream keeps up to date.
import { batch, computed, effect, signal } from '@preact/signals'
import type { DomainView, JobView, LocalQueueView, NodeView, QueueView, TeamView } from './views'

export type Viewer = { name: string; cluster: string; until: string }

export const viewer = signal<Viewer | null | undefined>(undefined) // undefined: not asked yet
export const now = signal(Date.now())
setInterval(() => (now.value = Date.now()), 1000)

type Listed = { metadata: { namespace?: string; name: string } }

// A list, by namespace/name; undefined before it was read for the first time.
export class List<T extends Listed> {
  readonly items = signal<ReadonlyMap<string, T> | undefined>(undefined)
  readonly refused = signal('')
  readonly lost = signal('')
  readonly all = computed(() => [...(this.items.value?.values() ?? [])])
  get known() { return this.items.value !== undefined }
  change(c: Change<T>) {
    if (c.lost !== undefined) { this.lost.value = c.lost; return }
    const next = new Map(c.all ? [] : this.items.value)
    for (const name of c.gone ?? []) next.delete(name)
    for (const o of c.set ?? []) if (o) next.set(`${o.metadata.namespace ?? ''}/${o.metadata.name}`, o)
    this.items.value = next
    this.refused.value = c.refused ?? ''
    this.lost.value = ''
  }
}

type Change<T> = { list: string; all?: boolean; set?: (T | null)[]; gone?: string[]; refused?: string; lost?: string }

export const jobs = new List<JobView>()
export const nodes = new List<NodeView>()
export const queues = new List<QueueView>()
export const localQueues = new List<LocalQueueView>()
export const domains = new List<DomainView>()
export const teams = new List<TeamView>()

const byName: Record<string, List<any>> = { jobs, nodes, queues, localqueues: localQueues, domains, teams }

// Whether the stream is up: 'connecting' at first, 'live', or 'lost' since a moment.
export const link = signal<{ state: 'connecting' | 'live' | 'lost'; since: number }>({ state: 'connecting', since: Date.now() })

let source: EventSource | undefined
let heard = Date.now()

export function follow() {
  source?.close()
  source = new EventSource('/stream?lists=' + Object.keys(byName).join(','))
  const alive = () => {
    heard = Date.now()
    if (link.value.state !== 'live') link.value = { state: 'live', since: heard }
  }
  source.addEventListener('alive', alive)
  source.addEventListener('change', e => {
    alive()
    const c = JSON.parse(e.data) as Change<any>
    batch(() => byName[c.list]?.change(c))
  })
  source.addEventListener('ended', () => { source?.close(); viewer.value = null })
  source.onerror = () => {
    if (link.value.state !== 'lost') link.value = { state: 'lost', since: heard }
    void session() // a session that has ended is told apart from a server that does not answer
    if (source?.readyState === EventSource.CLOSED) setTimeout(follow, 2000)
  }
}

export async function session() {
  try {
    const r = await fetch('/session')
    viewer.value = r.ok ? await r.json() : null
  } catch { /* nobody answers: what is shown stays, and is said to be old */ }
}

export async function logIn(token: string): Promise<string> {
  const r = await fetch('/session', {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ token }),
  })
  const said = await r.json()
  if (!r.ok) return said.message as string
  viewer.value = said
  return ''
}

export async function logOut() {
  await fetch('/session', { method: 'DELETE' })
  viewer.value = null
}

effect(() => { if (viewer.value) follow(); else if (viewer.value === null) source?.close() })

// Ask reads what is behind one thing, again every few seconds while somebody looks; the last answer stays.
export function ask<T>(path: string, every = 5000) {
  const answer = signal<{ is?: T; failed?: string; at?: number }>({})
  let stopped = false
  const read = async () => {
    if (stopped) return
    try {
      const r = await fetch(path)
      const text = await r.text()
      if (stopped) return
      if (r.ok) answer.value = { is: (r.headers.get('Content-Type')?.includes('json') ? JSON.parse(text) : text) as T, at: Date.now() }
      else answer.value = { ...answer.value, failed: message(text) || r.statusText }
    } catch (e) { if (!stopped) answer.value = { ...answer.value, failed: String(e) } }
    if (!stopped) setTimeout(read, every)
  }
  void read()
  return { answer, stop: () => { stopped = true } }
}

function message(text: string) {
  try { return (JSON.parse(text) as { message?: string }).message ?? text } catch { return text }
}
