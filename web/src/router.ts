// Where the page is: all of it is in the address, so that it can be sent to others and the back button works.
import { computed, signal } from '@preact/signals'

export const at = signal(new URL(location.href))
addEventListener('popstate', () => { at.value = new URL(location.href) })

export const path = computed(() => at.value.pathname.split('/').filter(Boolean).map(decodeURIComponent))

export function go(to: string) {
  history.pushState(null, '', to)
  at.value = new URL(location.href)
  scrollTo(0, 0)
}

// Param is one parameter of the address. Setting it replaces the address, as typing makes no history.
export const param = (name: string) => at.value.searchParams.get(name) ?? ''

export function setParam(name: string, value: string) {
  const u = new URL(location.href)
  if (value) u.searchParams.set(name, value); else u.searchParams.delete(name)
  history.replaceState(null, '', u)
  at.value = u
}

export const jobAddress = (namespace: string, kind: string, name: string) =>
  `/jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(kind.toLowerCase())}/${encodeURIComponent(name)}`

// Links of the page are followed without asking the server.
document.addEventListener('click', e => {
  const a = (e.target as Element).closest?.('a')
  if (!a || e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || a.target || a.origin !== location.origin) return
  e.preventDefault()
  go(a.pathname + a.search)
})
