// The page: who looks, the bar at the top, and the screen that the address names.
import { render } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { signal, useSignal } from '@preact/signals'
import { span } from './format'
import { at, go, path } from './router'
import { Cluster, NodeScreen } from './cluster'
import { JobScreen } from './job'
import { Jobs } from './jobs'
import { Queues } from './queues'
import { Timeline } from './timeline'
import { link, logIn, logOut, now, session, viewer } from './store'
import { Empty } from './ui'

function Screen() {
  const [first = 'jobs', ...rest] = path.value
  switch (first) {
    case 'jobs': return rest.length === 3 ? <JobScreen key={rest.join('/')} namespace={rest[0]!} kind={rest[1]!} name={rest[2]!} /> : <Jobs />
    case 'timeline': return <Timeline />
    case 'queues': return <Queues />
    case 'nodes': return rest[0] ? <NodeScreen name={rest[0]} /> : <Cluster />
  }
  return <main><Empty title="There is no such screen."><a href="/jobs">Jobs</a></Empty></main>
}

function Link() {
  const l = link.value
  if (l.state === 'live') return <span class="live go" role="status"><span class="mark" aria-hidden="true">●</span> live</span>
  if (l.state === 'connecting') return <span class="live" role="status">connecting</span>
  return <span class="live bad" role="status"><span class="mark" aria-hidden="true">■</span> as of {span(now.value - l.since)} ago</span>
}

const screens = [['jobs', 'Jobs', 'j'], ['nodes', 'Cluster', 'c'], ['queues', 'Queues', 'q'], ['timeline', 'Timeline', 't']] as const

function Page() {
  const who = viewer.value
  if (who === undefined) return null
  if (who === null) return <LogIn />
  const first = path.value[0] ?? 'jobs'
  return <>
    <a class="hidden skip" href="#main">Skip to what is shown</a>
    <header class="top">
      <a class="brand" href="/jobs"><svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true"><path class="c1" d="M1 1h6v6H1zM9 9h6v6H9z" /><path class="c2" d="M9 1h6v6H9z" /><path class="c3" d="M1 9h6v6H1z" /></svg> mlbatch</a>
      <nav aria-label="Screens">{screens.map(([to, word, key]) => <a key={to} href={'/' + to} aria-current={first === to ? 'page' : undefined} aria-keyshortcuts={key}>{word}</a>)}</nav>
      <Link />
      <button class="quiet" onClick={turn} title="Light or dark" aria-label="Light or dark">◐</button>
      <button class="quiet" onClick={() => (help.value = true)} title="Keys (?)" aria-label="Keys" aria-keyshortcuts="?">?</button>
      <span class="who" title={who.cluster}>{who.name}</span>
      <button class="quiet" onClick={() => void logOut()}>Log out</button>
    </header>
    <div id="main"><Screen /></div>
    <Help />
  </>
}

const help = signal(false)

function Help() {
  const box = useRef<HTMLDialogElement>(null)
  useEffect(() => { if (help.value) box.current?.showModal() }, [help.value])
  return <dialog ref={box} aria-label="Keys" onClose={() => (help.value = false)} onClick={e => { if (e.target === box.current) box.current?.close() }}>
    <h2>Keys</h2>
    <dl class="facts">{screens.map(([, word, key]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{word}</dd></div>)}
      <div><dt><kbd>/</kbd></dt><dd>search jobs; Esc leaves the search</dd></div><div><dt><kbd>?</kbd></dt><dd>these keys</dd></div></dl>
    <p class="fine">You see what {viewer.value?.name} may see in {viewer.value?.cluster}. <a href="/licenses.txt" target="_blank" rel="noreferrer">Licences</a></p>
    <form method="dialog"><button>Close</button></form>
  </dialog>
}

function LogIn() {
  const said = useSignal('')
  return <main class="login"><form onSubmit={async e => {
    e.preventDefault()
    const field = e.currentTarget.elements.namedItem('token') as HTMLInputElement
    said.value = await logIn(field.value.trim())
  }}>
    <h1>mlbatch</h1>
    <label>Token <input name="token" type="password" autocomplete="off" autofocus required /></label>
    <button class="main">Log in</button>
    <p class="fine">{said.value || problem.value || 'The address that the command prints has a token, with which one browser can log in.'}</p>
  </form></main>
}

const problem = { value: '' }

// Dark or light: as the machine has it, until somebody chooses.
function turn() {
  const dark = document.documentElement.dataset['look'] ? document.documentElement.dataset['look'] === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
  document.documentElement.dataset['look'] = dark ? 'light' : 'dark'
  localStorage.setItem('look', document.documentElement.dataset['look']!)
}
const chosen = localStorage.getItem('look')
if (chosen) document.documentElement.dataset['look'] = chosen

addEventListener('keydown', e => {
  const typing = e.target instanceof HTMLInputElement || e.target instanceof HTMLSelectElement
  if (e.key === 'Escape' && typing) (e.target as HTMLElement).blur()
  if (typing || e.metaKey || e.ctrlKey || e.altKey) return
  if (e.key === '/') {
    e.preventDefault()
    if (path.value[0] !== 'jobs' || path.value.length > 1) go('/jobs')
    requestAnimationFrame(() => document.getElementById('search')?.focus())
  }
  const to = screens.find(([, , key]) => key === e.key)?.[0]
  if (to) go('/' + to)
  if (e.key === '?') help.value = true
})

function App() {
  at.value
  useEffect(() => {
    const token = /^#token=(.+)$/.exec(location.hash)?.[1]
    if (!token) { void session(); return }
    history.replaceState(null, '', location.pathname + location.search) // it is used, and nobody's to read
    void logIn(token).then(failed => {
      if (!failed) return
      problem.value = failed
      void session()
    })
  }, [])
  return <Page />
}

render(<App />, document.getElementById('page')!)
