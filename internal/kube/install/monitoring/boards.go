package monitoring

import "strings"

// Boards are those for a cluster, a team, nodes and a job.
func Boards() []Board { return []Board{cluster(), team(), nodes(), job()} }

// ours are the labels of series of the replica that decides; more labels may follow.
func ours(more ...string) string {
	return "{" + strings.Join(append([]string{`replica_role!="follower"`}, more...), ", ") + "}"
}

// gpus are the resources that are GPUs, whatever device plugin tells of them.
const gpus = `resource=~".+/(gpu|mig-.+)(\\.shared)?"`

// quantile is one of a histogram of durations within a while.
func quantile(q, metric, labels string) string {
	return "histogram_quantile(" + q + ", sum by (le) (rate(" + metric + "_bucket" + ours(
		labels,
	) + "[$__rate_interval])))"
}

// waits are how long jobs wait: half of them, and nine in ten.
func waits(labels string) []Series {
	const metric = "kueue_admission_wait_time_seconds"
	return []Series{
		{quantile("0.5", metric, labels), "half of them"},
		{quantile("0.9", metric, labels), "nine in ten"},
	}
}

// productive is the effective training time ratio of jobs that ended.
func productive(labels string) Series {
	return Series{
		"sum(increase(kueue_job_productive_seconds_total" + ours(labels) + "[$__range])) / " +
			"sum(increase(kueue_job_wall_seconds_total" + ours(labels) + "[$__range]) > 0)", "ETTR",
	}
}

func cluster() Board {
	const all = `cluster_queue!=""`
	return Board{
		Name: "cluster", Title: "mlbatch / Cluster",
		About: "Who uses the cluster, what waits and why, and what is lost.",
		Rows: []Row{
			{
				"Now",
				4,
				[]Panel{
					{
						Title: "GPUs", About: "That nodes in service have.", Kind: Number, Unit: "short", Width: 4,
						Series: []Series{{`sum(kueue_flavor_capacity` + ours(`kind="healthy"`, gpus) + `)`, "healthy"}},
					},
					{
						Title: "GPUs in use", About: "By admitted jobs, of those that nodes in service have.", Kind: Number,
						Unit: "percentunit", Width: 4, Series: []Series{{
							`sum(kueue_cluster_queue_resource_usage` + ours(gpus) + `) / ` +
								`sum(kueue_flavor_capacity` + ours(`kind="healthy"`, gpus) + `)`, "in use",
						}},
					},
					{
						Title: "GPUs asked for",
						About: "By all jobs that wait.",
						Kind:  Number,
						Unit:  "short",
						Width: 4,
						Series: []Series{
							{`sum(kueue_cluster_queue_resource_pending` + ours(gpus) + `) or vector(0)`, "asked for"},
						},
					},
					{
						Title: "Jobs", About: "That have been admitted and have not ended, and that wait.", Kind: Number,
						Unit: "short", Width: 4, Series: []Series{
							{`sum(kueue_admitted_active_workloads` + ours() + `)`, "run"},
							{`sum(kueue_pending_workloads` + ours() + `)`, "wait"},
						},
					},
					{
						Title:  "Promised and lost",
						About:  "GPUs that quotas promise and that are missing since nodes are lost.",
						Kind:   Number,
						Unit:   "short",
						Width:  4,
						Alarm:  1,
						Series: []Series{{`sum(kueue_flavor_capacity` + ours(`kind="short"`, gpus) + `)`, "short"}},
					},
					{
						Title:  "Effective training time",
						About:  "Of the time from the first admission of jobs that ended to their ends, what was spent on work that was kept.",
						Kind:   Number,
						Unit:   "percentunit",
						Width:  4,
						Series: []Series{productive(all)},
					},
				},
			},
			{
				"Use",
				9,
				[]Panel{
					{
						Title: "GPUs in use by queue", About: "Each ClusterQueue's, on each other.", Kind: Lines, Unit: "short",
						Width: 12, Stacked: true, Series: []Series{{
							`sum by (cluster_queue) (kueue_cluster_queue_resource_usage` + ours(gpus) + `)`, "{{cluster_queue}}",
						}},
					},
					{
						Title: "Share by queue",
						About: "What each borrows, in thousandths of what may be lent, by its weight. Only with fair sharing.",
						Kind:  Lines,
						Unit:  "short",
						Width: 12,
						Series: []Series{{
							`max by (cluster_queue) (kueue_cluster_queue_weighted_share` + ours() + `)`, "{{cluster_queue}}",
						}},
					},
				},
			},
			{
				"Waiting",
				9,
				[]Panel{
					{
						Title: "Jobs that wait", About: "By the reason of their condition. mlbatch why says it of one job.",
						Kind: Lines, Unit: "short", Width: 12, Stacked: true, Series: []Series{{
							`sum by (underlying_cause, reason) (kueue_unadmitted_workloads` + ours() + `)`,
							"{{reason}} {{underlying_cause}}",
						}},
					},
					{
						Title:  "Wait of those that start",
						About:  "From the submission, or from when they were queued again, to the admission.",
						Kind:   Lines,
						Unit:   "s",
						Width:  12,
						Series: waits(all),
					},
				},
			},
			{
				"Losses",
				9,
				[]Panel{
					{
						Title: "Evictions",
						About: "By reason, each hour.",
						Kind:  Lines,
						Unit:  "short",
						Width: 8,
						Series: []Series{
							{`sum by (reason) (increase(kueue_evicted_workloads_total` + ours() + `[1h]))`, "{{reason}}"},
						},
					},
					{
						Title: "Attempts that ended", About: "Of jobs that are over, by category, each hour.", Kind: Lines,
						Unit: "short", Width: 8, Series: []Series{{
							`sum by (category) (increase(kueue_job_attempts_total` + ours() + `[1h]))`, "{{category}}",
						}},
					},
					{
						Title: "GPU hours lost",
						About: "Of attempts that were stopped or failed, since their last checkpoints, by queue, each hour.",
						Kind:  Lines,
						Unit:  "short",
						Width: 8,
						Series: []Series{{
							`sum by (cluster_queue) (increase(kueue_job_lost_gpu_seconds_total` + ours() + `[1h])) / 3600`,
							"{{cluster_queue}}",
						}},
					},
				},
			},
			{
				"mlbatch itself",
				8,
				[]Panel{
					{
						Title: "How long a decision takes",
						About: "Nine in ten, and 99 in 100.",
						Kind:  Lines,
						Unit:  "s",
						Width: 8,
						Series: []Series{
							{quantile("0.9", "kueue_admission_attempt_duration_seconds", `result!=""`), "nine in ten"},
							{quantile("0.99", "kueue_admission_attempt_duration_seconds", `result!=""`), "99 in 100"},
						},
					},
					{
						Title: "Estimates of starts",
						About: "What share came true: of quantile 0.5 half should, of 0.9 nine in ten.",
						Kind:  Lines,
						Unit:  "percentunit",
						Width: 8,
						Series: []Series{{
							`sum by (quantile) (kueue_start_estimates_total` + ours(`result="right"`) + `) / ` +
								`sum by (quantile) (kueue_start_estimates_total` + ours() + `)`, "{{quantile}}",
						}},
					},
					{
						Title: "Memory", About: "Of each controller.", Kind: Lines, Unit: "bytes", Width: 8, Series: []Series{{
							`process_resident_memory_bytes and on (instance) kueue_build_info`, "{{instance}}",
						}},
					},
				},
			},
		},
	}
}

func team() Board {
	const its = `cluster_queue=~"$cluster_queue"`
	return Board{
		Name: "team", Title: "mlbatch / Team",
		About: "What a team's queue has, uses, lends and waits for, and what its jobs lost.",
		Variables: []Variable{{
			Name: "cluster_queue", Title: "Queue", Values: "label_values(kueue_cluster_queue_info, cluster_queue)",
		}},
		Rows: []Row{
			{
				"Quota",
				9,
				[]Panel{
					{
						Title: "GPUs",
						About: "Of its own, in use, and asked for by jobs that wait. What is in use above its own is borrowed.",
						Kind:  Lines,
						Unit:  "short",
						Width: 12,
						Series: []Series{
							{
								`sum by (cluster_queue) (kueue_cluster_queue_nominal_quota` + ours(its, gpus) + `)`,
								"{{cluster_queue}} own",
							},
							{
								`sum by (cluster_queue) (kueue_cluster_queue_resource_usage` + ours(its, gpus) + `)`,
								"{{cluster_queue}} in use",
							},
							{
								`sum by (cluster_queue) (kueue_cluster_queue_resource_pending` + ours(its, gpus) + `)`,
								"{{cluster_queue}} asked for",
							},
						},
					},
					{
						Title: "GPUs borrowed",
						About: "In use above its own, by flavor.",
						Kind:  Lines,
						Unit:  "short",
						Width: 12,
						Series: []Series{
							{
								`clamp_min(sum by (cluster_queue, flavor) (kueue_cluster_queue_resource_usage` + ours(
									its,
									gpus,
								) + `) - ` +
									`sum by (cluster_queue, flavor) (kueue_cluster_queue_nominal_quota` + ours(
									its,
									gpus,
								) + `), 0)`,
								"{{cluster_queue}} {{flavor}}",
							},
						},
					},
				},
			},
			{
				"Waiting",
				9,
				[]Panel{
					{
						Title: "Jobs",
						About: "That run, and that wait. Parked jobs are looked at again when what they wait for changes.",
						Kind:  Lines,
						Unit:  "short",
						Width: 8,
						Series: []Series{
							{`sum by (cluster_queue) (kueue_admitted_active_workloads` + ours(its) + `)`, "{{cluster_queue}} run"},
							{
								`sum by (cluster_queue, status) (kueue_pending_workloads` + ours(its) + `)`,
								"{{cluster_queue}} wait, {{status}}",
							},
						},
					},
					{
						Title: "Why", About: "By the reason of their condition.", Kind: Lines, Unit: "short", Width: 8,
						Stacked: true, Series: []Series{{
							`sum by (underlying_cause, reason) (kueue_unadmitted_workloads` + ours(its) + `)`,
							"{{reason}} {{underlying_cause}}",
						}},
					},
					{
						Title:  "Wait of those that start",
						About:  "To the admission.",
						Kind:   Lines,
						Unit:   "s",
						Width:  8,
						Series: waits(its),
					},
				},
			},
			{
				"Jobs that ended",
				8,
				[]Panel{
					{
						Title: "GPU hours",
						About: "In the time shown.",
						Kind:  Number,
						Unit:  "short",
						Width: 4,
						Series: []Series{{
							`sum(increase(kueue_job_gpu_seconds_total` + ours(its) + `[$__range])) / 3600`, "all",
						}, {
							`sum(increase(kueue_job_lost_gpu_seconds_total` + ours(its) + `[$__range])) / 3600`, "lost",
						}},
					},
					{
						Title:  "Effective training time",
						About:  "Of the time from first admissions to ends, what was spent on work that was kept.",
						Kind:   Number,
						Unit:   "percentunit",
						Width:  4,
						Series: []Series{productive(its)},
					},
					{
						Title: "Attempts",
						About: "By what ended them, each hour.",
						Kind:  Lines,
						Unit:  "short",
						Width: 8,
						Series: []Series{{
							`sum by (category) (increase(kueue_job_attempts_total` + ours(its) + `[1h]))`, "{{category}}",
						}},
					},
					{
						Title: "Evictions and hangs",
						About: "Each hour.",
						Kind:  Lines,
						Unit:  "short",
						Width: 8,
						Series: []Series{
							{`sum by (reason) (increase(kueue_evicted_workloads_total` + ours(its) + `[1h]))`, "{{reason}}"},
							{`sum by (action) (increase(kueue_job_hangs_total` + ours(its) + `[1h]))`, "hang, {{action}}"},
						},
					},
				},
			},
		},
	}
}

func nodes() Board {
	const its = `node=~"$node"`
	return Board{
		Name:  "nodes",
		Title: "mlbatch / Node health",
		About: "Which nodes are out of service, what the agents and the GPUs say, and what it costs in capacity.",
		Variables: []Variable{
			{Name: "node", Title: "Node", Values: "label_values(mlbatch_agent_check_result, node)"},
		},
		Rows: []Row{
			{
				"Cluster",
				9,
				[]Panel{
					{
						Title:   "Nodes by state",
						About:   "By what findings say; facts such as a cordon are not in it.",
						Kind:    Lines,
						Unit:    "short",
						Width:   8,
						Stacked: true,
						Series:  []Series{{`sum by (state) (kueue_nodes` + ours() + `)`, "{{state}}"}},
					},
					{
						Title: "GPUs",
						About: "Planned, present, in service, promised by quotas, and promised but lost.",
						Kind:  Lines,
						Unit:  "short",
						Width: 8,
						Series: []Series{{
							`sum by (flavor, kind) (kueue_flavor_capacity` + ours(gpus) + `)`, "{{flavor}} {{kind}}",
						}},
					},
					{
						Title: "Changes of state", About: "Each hour. Many of them are one source that flaps.", Kind: Lines,
						Unit: "short", Width: 4, Series: []Series{{
							`sum by (state) (increase(kueue_node_health_transitions_total` + ours() + `[1h]))`, "to {{state}}",
						}},
					},
					{
						Title: "Held, and overdue",
						About: "Nodes that too many bad ones keep in service, and nodes whose deep test is late.",
						Kind:  Lines,
						Unit:  "short",
						Width: 4,
						Series: []Series{
							{`sum by (flavor) (kueue_nodes_held_in_service` + ours() + `)`, "{{flavor}} held"},
							{`sum by (flavor) (kueue_nodes_deep_test_overdue` + ours() + `)`, "{{flavor}} overdue"},
						},
					},
				},
			},
			{
				"Checks of the agents",
				9,
				[]Panel{
					{
						Title:  "What is bad",
						About:  "Checks whose result is not good now.",
						Kind:   Table,
						Unit:   "short",
						Width:  12,
						Series: []Series{{`mlbatch_agent_check_result{` + its + `, result!~"Passed|Skipped"} == 1`, ""}},
					},
					{
						Title: "GPUs that a check calls bad",
						About: "By Autopilot's metric; pciebw tells GB/s and is not in it.",
						Kind:  Lines,
						Unit:  "short",
						Width: 12,
						Series: []Series{
							{
								`sum by (node, health) (autopilot_health_checks{` + its + `, health!="pciebw"}) > 0`,
								"{{node}} {{health}}",
							},
						},
					},
				},
			},
			{
				"GPUs, by DCGM's exporter",
				9,
				[]Panel{
					{
						Title: "XID errors",
						About: "The last one of each GPU.",
						Kind:  Table,
						Unit:  "short",
						Width: 8,
						Series: []Series{
							{`max by (Hostname, gpu, modelName) (DCGM_FI_DEV_XID_ERRORS{Hostname=~"$node"}) > 0`, ""},
						},
					},
					{
						Title: "Clocks held back",
						About: "GPUs whose clocks are lowered for another reason than that they are idle. Power limits are one at full load.",
						Kind:  Lines,
						Unit:  "short",
						Width: 8,
						Series: []Series{
							{
								`count by (Hostname) ({__name__=~"DCGM_FI_DEV_CLOCK(_THROTTLE|S_EVENT)_REASONS", Hostname=~"$node"} > 1)`,
								"{{Hostname}}",
							},
						},
					},
					{
						Title: "Temperature", About: "The hottest GPU of each node.", Kind: Lines, Unit: "celsius", Width: 8,
						Series: []Series{{`max by (Hostname) (DCGM_FI_DEV_GPU_TEMP{Hostname=~"$node"})`, "{{Hostname}}"}},
					},
				},
			},
		},
	}
}

// ofPods are series of DCGM's exporter about the pods of a job. Where Prometheus keeps the labels of its target, those of
// the pod are called exported_.
func ofPods(metrics string) string {
	by := func(prefix, more string) string {
		return `label_replace({__name__=~"` + metrics + `", ` + prefix + `namespace=~"$namespace", ` + prefix +
			`pod=~"$job.*", ` + more + `}, "job_pod", "$1", "` + prefix + `pod", "(.*)")`
	}
	return by("exported_", `exported_pod!=""`) + " or " + by("", `exported_pod="", pod!=""`)
}

func job() Board {
	lines := func(title, about, unit, metrics, scale string) Panel {
		return Panel{Title: title, About: about, Kind: Lines, Unit: unit, Width: 12, Series: []Series{{
			"avg by (job_pod) (" + ofPods(metrics) + ")" + scale, "{{job_pod}}",
		}}}
	}
	return Board{
		Name: "job", Title: "mlbatch / Job",
		About: "What the GPUs of a job's pods do, by DCGM's exporter. mlbatch show says how the job stands.",
		Variables: []Variable{
			{
				Name:   "namespace",
				Title:  "Namespace",
				Values: "label_values(kueue_local_queue_admitted_active_workloads, namespace)",
			},
			{Name: "job", Title: "Names of pods begin with", Text: ".*"},
		},
		Rows: []Row{
			{
				"Work",
				9,
				[]Panel{
					lines("Engine", "Share of time in which anything ran. 100 % is no proof of progress: a hang spins, too.",
						"percentunit", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", ""),
					lines(
						"Tensor cores",
						"Share of time in which they worked.",
						"percentunit",
						"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
						"",
					),
				},
			},
			{
				"What it takes",
				9,
				[]Panel{
					lines("Utilisation", "As nvidia-smi tells it.", "percentunit", "DCGM_FI_DEV_GPU_UTIL", " / 100"),
					lines(
						"Power",
						"High use and low power at once is how a hang looks.",
						"watt",
						"DCGM_FI_DEV_POWER_USAGE",
						"",
					),
				},
			},
			{
				"Memory and faults",
				9,
				[]Panel{
					lines("Memory in use", "Of the GPUs of each pod, on average.", "decmbytes", "DCGM_FI_DEV_FB_USED", ""),
					lines(
						"Clocks held back",
						"Reasons as bits: 1 is idle, 4 a limit of power, which is usual at full load, 8 and above are heat and hardware.",
						"short",
						"DCGM_FI_DEV_CLOCK(_THROTTLE|S_EVENT)_REASONS",
						"",
					),
				},
			},
			{"Its queue", 8, []Panel{
				{
					Title: "Jobs of the namespace", About: "That run, and that wait.", Kind: Lines, Unit: "short", Width: 12,
					Series: []Series{
						{
							`sum by (namespace, name) (kueue_local_queue_admitted_active_workloads` + ours(
								`namespace=~"$namespace"`,
							) + `)`,
							"{{namespace}}/{{name}} run",
						},
						{
							`sum by (namespace, name) (kueue_local_queue_pending_workloads` + ours(
								`namespace=~"$namespace"`,
							) + `)`,
							"{{namespace}}/{{name}} wait",
						},
					},
				},
				{
					Title: "Evictions of the namespace", About: "Each hour.", Kind: Lines, Unit: "short", Width: 12,
					Series: []Series{
						{
							`sum by (reason) (increase(kueue_local_queue_evicted_workloads_total` + ours(
								`namespace=~"$namespace"`,
							) + `[1h]))`,
							"{{reason}}",
						},
					},
				},
			}},
		},
	}
}
