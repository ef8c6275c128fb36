// Made of the Go types of views by `go test ./internal/page -update`; do not edit.
export type JobView = {
  kind?: string
  apiVersion?: string
  metadata: { namespace?: string; name: string; uid?: string; creationTimestamp?: string }
  job: Job
}

export type NodeView = {
  kind?: string
  apiVersion?: string
  metadata: { namespace?: string; name: string; uid?: string; creationTimestamp?: string }
  node: Node
}

export type QueueView = {
  kind?: string
  apiVersion?: string
  metadata: { namespace?: string; name: string; uid?: string; creationTimestamp?: string }
  queue: Queue
}

export type LocalQueueView = {
  kind?: string
  apiVersion?: string
  metadata: { namespace?: string; name: string; uid?: string; creationTimestamp?: string }
  queue: Queue
}

export type DomainView = {
  kind?: string
  apiVersion?: string
  metadata: { namespace?: string; name: string; uid?: string; creationTimestamp?: string }
  domain: Domain
}

export type TeamView = {
  kind?: string
  apiVersion?: string
  metadata: { namespace?: string; name: string; uid?: string; creationTimestamp?: string }
  team: Team
}

export type JobDetails = {
  kind?: string
  apiVersion?: string
  metadata: { namespace?: string; name: string; uid?: string; creationTimestamp?: string }
  at: string
  replica: string
  unread?: string[]
  details: Details
}

export type JobExplanation = {
  kind?: string
  apiVersion?: string
  metadata: { namespace?: string; name: string; uid?: string; creationTimestamp?: string }
  at: string
  replica: string
  unread?: string[]
  explanation: Explanation
}

export type Job = {
  namespace: string
  kind: string
  name: string
  title?: string
  queue?: string
  clusterQueue?: string
  targetClusterQueue?: string
  position?: number
  start?: Start
  state: string
  reason?: string
  message?: string
  priority?: number
  priorityClass?: string
  timeLimitSeconds?: number
  pods: number
  running: number
  gpus: number
  slices?: Record<string, number>
  gpusHeld: number
  slicesHeld?: Record<string, number>
  started?: string
  evictions?: number
  evictedBy?: string
  nodes?: string[]
  restarts?: number
  trouble?: string
  user?: string
  workload?: string
  exitCode?: number
  created: string
  since?: string
}

export type Node = {
  name: string
  state: string
  why?: string
  gpus: number
  free?: number
  slices?: Record<string, number>
  freeSlices?: Record<string, number>
  pods?: number
  jobs?: Record<string, number>
  created: string
  domain?: string[]
  drained?: Drain
  health?: NodeHealth
  faults?: NodeFaults
  gpusUsedSince?: string
}

export type Queue = {
  kind: string
  namespace?: string
  name: string
  parent?: string
  resources?: Share[]
  weightedShare?: number
  running: number
  waiting: number
  state?: string
}

export type Domain = {
  topology?: string
  level: string
  name: string
  path?: string[]
  nodes: number
  ready: number
  gpus: number
  free?: number
  wholeNodes?: number
}

export type Team = {
  name: string
  localQueues?: string[]
  clusterQueue?: string
  cohort?: string
  state?: string
  resources?: Share[]
  sharedWith?: string[]
  running: number
  waiting: number
  people?: string[]
  unread?: string[]
  deleting?: boolean
}

export type Details = {
  namespace: string
  kind: string
  name: string
  queue?: string
  clusterQueue?: string
  flavors?: string[]
  user?: string
  priority?: number
  priorityClass?: string
  workload?: string
  state: string
  reason?: string
  message?: string
  since?: string
  evictions?: number
  eviction?: Eviction
  lost?: Lost
  resets?: number
  requeueAt?: string
  earlierAttempts?: AttemptSum
  attempts?: Attempt[]
  attemptsTotal: AttemptSum
  ettr?: number
  retries?: Retries
  progress?: string
  hangs?: boolean
  failure?: Failure
  roles?: Role[]
  pods?: Pod[]
  timeline?: Moment[]
  unread?: string[]
}

export type Explanation = {
  object: string
  workload?: string
  state: string
  reason?: string
  sentences: string[] | null
  helps?: string
  advice?: string[]
  eviction?: Eviction
  explanation?: ExplanationX
}

export type Start = {
  p50?: string
  p90?: string
  passed?: boolean
  at: string
  known: number
}

export type Drain = {
  by: string
  reason?: string
  at: string
  cordoned?: boolean
  labelled?: boolean
  health?: string
}

export type NodeHealth = {
  state: string
  finding?: string
  since?: string
  held?: boolean
}

export type NodeFaults = {
  lemon: number
  kinds: Record<string, number>
  jobsLost: number
  since: string
  last: string
  lastKind: string
}

export type Share = {
  flavor: string
  resource: string
  nominal?: string
  used: string
  queueUsed?: string
  borrowed?: string
  lent?: string
  lentAtMost?: boolean
  borrowingLimit?: string
  lendingLimit?: string
}

export type Eviction = {
  reason: string
  cause?: string
  message?: string
  rule?: string
  at: string
  ranSeconds: number
  gpuHours: number
}

export type Lost = {
  ranSeconds: number
  gpuHours: number
}

export type AttemptSum = {
  attempts?: number
  replacements?: number
  start?: string
  ranSeconds?: number
  productiveSeconds?: number
  gpuSeconds?: number
  lostGPUSeconds?: number
  categories?: Record<string, number>
}

export type Attempt = {
  start: string
  ready?: string
  checkpoint?: string
  end?: string
  category?: string
  reason?: string
  message?: string
  replacedPods?: number
  restartedPods?: number
  nodeCount?: number
  nodes?: string[]
  failedNodes?: string[]
  pod?: string
  rank?: number
  exitCode?: number
  gpus?: number
  gpuSeconds?: number
  lostGPUSeconds?: number
}

export type Retries = {
  used: number
  limit?: number
  disruptions: number
  policies?: SaidPolicy[]
  avoidedNodes?: string[]
}

export type Failure = {
  role?: string
  index?: number
  rank?: number
  pod: string
  node?: string
  container?: string
  at: string
  exitCode?: number
  reason?: string
  why: string
  log?: string[]
  noLog?: string
}

export type Role = {
  name: string
  pods: number
  running: number
  ended: number
  requests?: Record<string, string>
  gpus: number
  slices?: Record<string, number>
  flavors?: string[]
}

export type Pod = {
  role?: string
  index: number
  rank: number
  name: string
  node?: string
  state: string
  why?: string
  restarts: number
  gpus: number
  slices?: Record<string, number>
}

export type Moment = {
  at: string
  step: string
  text: string
  seconds?: number
}

export type ExplanationX = {
  kind?: string
  apiVersion?: string
  metadata: { namespace?: string; name: string; uid?: string; creationTimestamp?: string }
  at: string
  waiting: boolean
  reason?: string
  cause?: string
  message?: string
  clusterQueue?: string
  localQueue?: string
  priority: number
  positionInClusterQueue?: number
  positionInLocalQueue?: number
  start?: Start
  ahead?: WorkloadReference[]
  blocker?: WorkloadReference
  shortage?: Shortage
  holders?: Holder[]
  nodes?: NodeFacts
  tried?: FlavorAttempt[]
  lenders?: Lender[]
  next?: NextReason[]
  advice?: Advice[]
  incomplete?: boolean
  contest?: Contest
}

export type SaidPolicy = {
  from: string
  text: string
}

export type WorkloadReference = {
  namespace?: string
  name?: string
  job?: string
  uid?: string
  clusterQueue?: string
}

export type Shortage = {
  podSet?: string
  flavor: string
  resource: string
  need: string
  have: string
  limit?: string
}

export type Holder = {
  namespace?: string
  name?: string
  job?: string
  uid?: string
  clusterQueue?: string
  node?: string
  pods?: string[]
  resource?: string
  amount?: string
  leaving?: boolean
  stopsAt?: string
  promised?: boolean
  endless?: boolean
}

export type NodeFacts = {
  podSet?: string
  flavor?: string
  total: number
  matching: number
  cordoned?: number
  evicted?: number
  lost?: number
  closed?: number
  full?: number
  fit: number
  wanted: number
  resource?: string
  free?: string
  largest?: string
  need?: string
  down?: DownNode[]
  inTheWay?: Obstacle[]
  evictionInVain?: boolean
  evictable?: number
  nearest?: NearestDomain
  spared?: SparedCount[]
}

export type FlavorAttempt = {
  podSet?: string
  flavor: string
  reason?: string
  cause?: string
  message?: string
}

export type Lender = {
  clusterQueue: string
  flavor: string
  resource: string
  nominal: string
  lends: string
  because?: DownNode[]
}

export type NextReason = {
  reason: string
  cause?: string
  message: string
}

export type Advice = {
  kind: string
  podSet?: string
  count?: number
  resource?: string
  amount?: string
  flavor?: string
  priority?: number
  priorityClasses?: string[]
  queue?: string
  nodes?: string[]
  pods?: string[]
  workloads?: WorkloadReference[]
  detail?: string[]
  level?: string
  instead?: string
  affinity?: boolean
  at?: string
  preempts?: number
  allowed: boolean
  needs?: string
}

export type Contest = {
  self: Contestant
  other: Contestant
  cohort?: string
  order?: string
  otherFirst?: boolean
  strict?: boolean
  spared?: string
  field?: string
  policy?: string
  quotas?: ContestQuota[]
  shares?: ContestShare[]
  otherGone?: OtherGone
}

export type DownNode = {
  name: string
  why: string
}

export type Obstacle = {
  text: string
  taint?: boolean
  nodes: number
}

export type NearestDomain = {
  level: string
  domain: string
  fit: number
  usable: number
}

export type SparedCount = {
  rule: string
  own?: boolean
  workloads: number
}

export type Contestant = {
  namespace?: string
  name?: string
  job?: string
  uid?: string
  clusterQueue?: string
  stage?: string
  priority: number
  queueTime?: string
  reservedTime?: string
  uses?: FlavorAmount[]
}

export type ContestQuota = {
  clusterQueue: string
  flavor: string
  resource: string
  nominal: string
  used: string
  borrowed: string
}

export type ContestShare = {
  name: string
  cohort?: boolean
  weight: string
  now: number
  then: number
}

export type OtherGone = {
  anyway?: boolean
  starts: boolean
  awaits?: boolean
  preempts?: number
  instead?: number
  reason?: string
  cause?: string
  message?: string
}

export type FlavorAmount = {
  flavor: string
  resource: string
  amount: string
}
