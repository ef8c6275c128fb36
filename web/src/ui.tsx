// Parts that all screens are made of.
import { useSignal, useSignalEffect } from '@preact/signals'
import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from '@tanstack/virtual-core'
import { since, when } from './format'
import { now, type List } from './store'

// State of a job, node or queue: a mark whose shape says it as well as its colour, and the word.
const marks: Record<string, [string, string]> = {
  Running: ['go', '●'], Starting: ['soon', '◐'], Waiting: ['wait', '○'], Held: ['off', '‖'], Stopping: ['soon', '◑'],
  Resetting: ['soon', '↻'], Succeeded: ['done', '✓'], Failed: ['bad', '✕'], Unmanaged: ['off', '·'],
  Ready: ['go', '●'], Warned: ['wait', '▲'], Closed: ['bad', '■'], Lost: ['bad', '✕'], Evicted: ['bad', '✕'],
  active: ['go', '●'],
}
export function State({ of, children }: { of: string; children?: ComponentChildren }) {
  const [tone, mark] = marks[of] ?? ['off', '·']
  return <span class={`state ${tone}`}><span class="mark" aria-hidden="true">{mark}</span>{children ?? of}</span>
}
export const tone = (state: string) => (marks[state] ?? ['off'])[0]

export function Ago({ at }: { at: string | undefined }) {
  if (!at) return <span class="none">–</span>
  return <time dateTime={at} title={when(at)}>{since(at, now.value)}</time>
}

export function Panel({ title, aside, children, class: name = '' }: { title: string; aside?: ComponentChildren; children: ComponentChildren; class?: string }) {
  return <section class={`panel ${name}`}><header><h2>{title}</h2>{aside}</header>{children}</section>
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return <div class="empty"><p>{title}</p>{children}</div>
}

// What a list has to say before it has anything to show: that it is being read, or that it must not be.
export function Unless<T extends { metadata: { name: string } }>({ of, what, children }: { of: List<T>; what: string; children: () => ComponentChildren }) {
  if (of.refused.value) return <Empty title={`You may not see ${what}.`}><p class="fine">{of.refused.value}</p></Empty>
  if (!of.known) return of.lost.value ? <Empty title={`Nobody tells of ${what} at the moment.`}><p class="fine">{of.lost.value}</p></Empty> : <div class="loading" role="status"><i /><i /><i /><span class="hidden">Reading {what}</span></div>
  return <>{of.lost.value && <p class="note" role="status">Not up to date: {of.lost.value}</p>}{children()}</>
}

export type Column<T> = {
  name: string
  class?: string
  width: string
  head?: ComponentChildren
  cell: (row: T) => ComponentChildren
  by?: (row: T) => number | string
}

// Table of any length: only the rows in sight are in the document.
export function Table<T>({ label, columns, rows, id, href, sort, onSort, class: more = '' }: {
  class?: string; label: string; columns: Column<T>[]; rows: T[]; id: (row: T) => string; href?: (row: T) => string
  sort: string; onSort: (name: string) => void
}) {
  const box = useRef<HTMLDivElement>(null)
  const tick = useSignal(0)
  const height = 38
  const v = useRef<Virtualizer<HTMLDivElement, Element>>(undefined)
  const options = {
    count: rows.length, getScrollElement: () => box.current, estimateSize: () => height, overscan: 12,
    observeElementRect, observeElementOffset, scrollToFn: elementScroll, onChange: () => { tick.value++ },
  }
  v.current ??= new Virtualizer(options)
  v.current.setOptions(options)
  useLayoutEffect(() => v.current!._didMount(), [])
  useLayoutEffect(() => v.current!._willUpdate())
  tick.value // rows come into sight
  const [by, down] = sort.startsWith('-') ? [sort.slice(1), true] : [sort, false]
  const grid = { gridTemplateColumns: columns.map(c => c.width).join(' ') }
  const seen = v.current.getVirtualItems()
  return <div class={`table ${more}`}>
    <div class="scroll" ref={box} tabIndex={0} role="table" aria-label={label} aria-rowcount={rows.length + 1} aria-colcount={columns.length}>
      <div class="row head" role="row" style={grid} aria-rowindex={1}>
        {columns.map(c => <div key={c.name} role="columnheader" class={c.class} aria-sort={!c.by ? undefined : by !== c.name ? 'none' : down ? 'descending' : 'ascending'}>
          {c.by ? <button onClick={() => onSort(by === c.name && !down ? '-' + c.name : c.name)}>{c.name}{by === c.name && <span aria-hidden="true">{down ? ' ↓' : ' ↑'}</span>}</button> : c.head ? <><span class="hidden">{c.name}</span>{c.head}</> : c.name}
        </div>)}
      </div>
      <div class="rows" role="rowgroup" style={{ height: `${v.current.getTotalSize()}px` }}>
        {seen.map(i => {
          const row = rows[i.index]
          if (row === undefined) return null
          return <div class="row" role="row" key={id(row)} aria-rowindex={i.index + 2} style={{ ...grid, transform: `translateY(${i.start}px)` }}>
            {columns.map((c, n) => <div key={c.name} role="cell" class={c.class}>{n === 0 && href ? <a class="whole" href={href(row)}>{c.cell(row)}</a> : c.cell(row)}</div>)}
          </div>
        })}
      </div>
    </div>
  </div>
}

export function sorted<T>(rows: T[], columns: Column<T>[], sort: string): T[] {
  const [name, down] = sort.startsWith('-') ? [sort.slice(1), -1] : [sort, 1]
  const by = columns.find(c => c.name === name)?.by
  if (!by) return rows
  const keyed = rows.map(r => ({ r, k: by(r) }))
  keyed.sort((a, b) => (a.k < b.k ? -down : a.k > b.k ? down : 0))
  return keyed.map(x => x.r)
}

// Bar of parts of a whole, each with its word for who cannot see it.
export function Bar({ parts, whole, label }: { parts: { n: number; tone: string; word: string }[]; whole: number; label: string }) {
  const of = Math.max(whole, parts.reduce((s, p) => s + p.n, 0), 1e-9)
  return <div class="bar" role="img" aria-label={`${label}: ${parts.map(p => `${p.n} ${p.word}`).join(', ')} of ${whole}`}>
    {parts.filter(p => p.n > 0).map(p => <span key={p.word} class={p.tone} style={{ width: `${(100 * p.n) / of}%` }} title={`${p.n} ${p.word}`} />)}
  </div>
}

// Live text whose last lines stay in sight while nobody scrolls up.
export function Log({ text }: { text: string }) {
  const box = useRef<HTMLPreElement>(null)
  const stay = useRef(true)
  useEffect(() => { if (stay.current && box.current) box.current.scrollTop = box.current.scrollHeight }, [text])
  return <pre class="log" tabIndex={0} ref={box} onScroll={e => {
    const b = e.currentTarget
    stay.current = b.scrollHeight - b.scrollTop - b.clientHeight < 24
  }}>{text || <span class="none">nothing was written yet</span>}</pre>
}

export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return <dl class="facts">{of.filter(([, v]) => v !== undefined && v !== '' && v !== null && v !== false).map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{v}</dd></div>)}</dl>
}

export function useTitle(text: string) {
  useEffect(() => { document.title = text ? `${text} · mlbatch` : 'mlbatch' }, [text])
}

export { useSignal, useSignalEffect }
export type { JSX }
