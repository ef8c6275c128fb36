package mpijob

import "strconv"

// Files of the launcher.
const (
	hostfile = "hostfile"
	discover = "discover_hosts.sh"
	kubexec  = "kubexec.sh"
)

// findKubectl is where scripts find kubectl: where it was brought to, or in the image.
const findKubectl = `kubectl=` + kubectlPath + `/kubectl
[ -x "$kubectl" ] || kubectl=kubectl
if ! command -v "$kubectl" >/dev/null; then
	echo "kubectl is not in this image: add it, or name an image with it in the annotation ` + KubectlImage + ` of the MPIJob" >&2
	exit 127
fi
`

// kubexecScript runs a command in a pod as rsh and ssh run one on a host. They are called
// with options, which mean nothing here, the host and the command.
func kubexecScript(container string) string {
	in := ""
	if container != "" {
		in = " --container " + container
	}
	return `#!/bin/sh
# mpirun calls it as it would call rsh: [OPTION...] HOST COMMAND...
while [ "${1#-}" != "$1" ]; do
	shift
done
pod=${1%%.*}
shift
` + findKubectl + `exec "$kubectl" exec "$pod"` + in + ` -- /bin/sh -c "$*"
`
}

// discoverByPod prints the workers that run, with their slots.
func discoverByPod(slots int32) string {
	return `#!/bin/sh
# Prints the workers that run, as elastic Horovod asks for them.
` + findKubectl + `names=$(sed 's/ .*//' "$(dirname "$0")/` + hostfile + `")
[ -n "$names" ] || exit 0
"$kubectl" get pods $names --ignore-not-found --no-headers --output custom-columns=NAME:.metadata.name,PHASE:.status.phase |
	while read -r name phase; do
		[ "$phase" != Running ] || echo "$name:` + strconv.Itoa(int(slots)) + `"
	done
`
}

// discoverByName prints the workers that are found under their names, which are the workers that
// are ready.
func discoverByName(slots int32) string {
	return `#!/bin/sh
# Prints the workers that are ready, as elastic Horovod asks for them: only these have an
# address. Where names cannot be looked up it prints all.
found() {
	if command -v getent >/dev/null; then
		getent hosts "$1" >/dev/null
	fi
}
while read -r host rest; do
	host=${host%%:*}
	! found "$host" || echo "$host:` + strconv.Itoa(int(slots)) + `"
done <"$(dirname "$0")/` + hostfile + `"
`
}
