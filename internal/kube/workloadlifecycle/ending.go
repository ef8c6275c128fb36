package workloadlifecycle

import "time"

// TimeToEnd says how much time a pod has left that was deleted a while ago and was given grace to end
// from that moment on, where pods have longest at most, and whether it has to be told so. A node counts
// what it is told from the moment on at which it is told, and with none at all the pod would be
// forgotten before it has ended. The longest time 0 is without limit.
func TimeToEnd(grace, ago, longest time.Duration) (left time.Duration, shorten bool) {
	if longest <= 0 || grace <= longest {
		return max(grace-ago, 0), false
	}
	return max((longest - ago).Truncate(time.Second), time.Second), true
}
