// How amounts and times are written.
export function span(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000))
  if (s < 60) return `${s}s`
  if (s < 3600) return `${Math.floor(s / 60)}m${s < 600 && s % 60 ? `${s % 60}s` : ''}`
  if (s < 86400) return `${Math.floor(s / 3600)}h${s < 36000 && Math.floor(s / 60) % 60 ? `${Math.floor(s / 60) % 60}m` : ''}`
  return `${Math.floor(s / 86400)}d${s < 864000 && Math.floor(s / 3600) % 24 ? `${Math.floor(s / 3600) % 24}h` : ''}`
}

export const since = (at: string | undefined, now: number) => (at ? span(now - Date.parse(at)) : '')

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23' })
const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })

export const when = (at: string) => full.format(new Date(at))
export const soon = (at: string, now: number) =>
  (Math.abs(Date.parse(at) - now) < 12 * 3600_000 ? clock : day).format(new Date(at))

export const count = (n: number, what: string) => `${n.toLocaleString('en')} ${what}${n === 1 ? '' : 's'}`

// Amount of a quantity of Kubernetes, as a number.
export function amount(q: string | undefined): number {
  const m = /^([0-9.]+)(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi)?$/.exec(q ?? '0')
  if (!m) return 0
  const units: Record<string, number> = { m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50 }
  return Number(m[1]) * (units[m[2] ?? ''] ?? 1)
}
