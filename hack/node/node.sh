#!/usr/bin/env bash
# A real Kubernetes node on this machine: pods really run. Root, Debian 12 or newer, no Docker; the
# binaries are built from source (make tools).
#
#   hack/node/node.sh up|down|status
#   hack/node/node.sh restart PROCESS      kill one of the node's processes (kubelet, say) and start it again
#   hack/node/node.sh exec -- COMMAND...   run a command inside the node's namespaces
#
#   NODE_DIR   all files that the node writes, including its kubeconfig; default .cluster/node
#   NODE_REGISTRY_DIR  the images in its registry, which outlive the node; default .cluster/registry
#   TOOLS      folder of the binaries; default bin/tools
#
# The node runs in separate namespaces (network, mounts, processes, host name): it does not affect the host, and ends with the namespaces'
# first process. A virtual cable (veth) connects it with the host. The host can reach the API server, Service IPs, pod IPs, and node ports
# (at the node's address). The node has no connection to the internet. A machine can run one node at a time.
#
# Every registry name leads to the node's registry, which hack/node/images.sh fills. Other names outside of the cluster do not resolve,
# except the names in NODE_DIR/hosts. That file may be edited while the node runs. At the start it contains the names in the samples, for
# which a server answers 200 over HTTPS.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
self=$root/hack/node/node.sh
dir=${NODE_DIR:-$root/.cluster/node}
registry_dir=${NODE_REGISTRY_DIR:-$root/.cluster/registry}
tools=${TOOLS:-$root/bin/tools}
[[ $dir == /* ]] || dir=$PWD/$dir
[[ $registry_dir == /* ]] || registry_dir=$PWD/$registry_dir
[[ $tools == /* ]] || tools=$PWD/$tools

node=d3os-node # name of the node, and of the cable's end on the host
host_ip=198.18.77.1
node_ip=198.18.77.2
outside_ip=198.18.77.5
pod_cidr=10.244.0.0/24
service_cidr=10.96.0.0/16
api_ip=10.96.0.1
dns_ip=10.96.0.10

logs=$dir/logs
pki=$dir/pki
conf=$dir/conf
export KUBECONFIG=$dir/kubeconfig
export LC_ALL=C
export PATH=$tools:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH
# Requests to the node must not use a proxy of the host.
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY

# shellcheck source=hack/packages.sh
. "$root/hack/packages.sh"
# shellcheck source=hack/node/config.sh
. "$root/hack/node/config.sh"

start=${EPOCHREALTIME/[.,]/}
component=
say() { printf '  [%5.1f s] %s\n' "$(((${EPOCHREALTIME/[.,]/} - start) / 100000))e-1" "$*"; }
die() { echo "node.sh: $*" >&2; exit 1; }

# init_pid prints the host's ID of the namespaces' first process. When that process ends, the node ends.
init_pid() {
	local pid
	pid=$(cat "$dir/init.pid" 2>/dev/null) || return 1
	[[ $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) == "$tools/node-init "* ]] || return 1
	echo "$pid"
}

enter() {
	local pid
	pid=$(init_pid) || die "the node is not running"
	nsenter --target "$pid" --net --mount --pid --uts --wd="$PWD" -- "$@"
}

running() { init_pid >/dev/null && kubectl get --raw /readyz --request-timeout 5s >/dev/null 2>&1; }

# answers IP PORT PATH: succeeds if a server answers 200 there.
answers() {
	local status
	# shellcheck disable=SC2016
	status=$(exec 2>/dev/null; timeout 2 bash -c 'exec 3<>"/dev/tcp/$0/$1" && printf "GET %s HTTP/1.0\r\n\r\n" "$2" >&3 && head -n 1 <&3' "$@") || return 1
	[[ $status == *" 200"* ]]
}

# shellcheck disable=SC2016
listens() { timeout 2 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$@" 2>/dev/null; }

# begin COMPONENT COMMAND...: starts a component inside the node.
begin() {
	local pid name=$1
	shift
	pid=$(init_pid) || return 1
	printf '%s\0' "$@" >"$dir/commands/$name"
	# setsid: an interrupt of `up` must not interrupt the started processes.
	setsid nsenter --target "$pid" --net --mount --pid --uts --wd=/ -- "$@" \
		</dev/null >>"$logs/$name.log" 2>&1 8>&- 9>&- &
	echo $! >"$dir/pids/$name"
	disown # the shell prints no message at its end
}

alive() { kill -0 "$(cat "$dir/pids/$1")" 2>/dev/null; }

# until_ready COMPONENT SECONDS COMMAND...: waits until the command succeeds. It fails if a process of the node ends.
until_ready() {
	local deadline=$((SECONDS + $2)) name
	local waited=$1
	shift 2
	until "$@" >/dev/null 2>&1; do
		for name in "$dir"/pids/*; do
			component=${name##*/}
			alive "$component" || die "$component has ended"
		done
		component=$waited
		((SECONDS < deadline)) || die "$component did not become ready"
		sleep 0.1
	done
	component=
}

# inside sets up the namespaces in their first process, and then becomes their init.
inside() {
	local pid resolv
	# /proc still belongs to the host here, so it has the host's process ID.
	read -r pid _ </proc/self/stat
	mount --make-rshared / # mounts of a pod may be shared with other pods
	resolv=$(realpath -m /etc/resolv.conf)
	mount -t tmpfs -o mode=755 tmpfs /run
	mkdir -p /run/lock
	if [[ $resolv == /run/* ]]; then
		mkdir -p "$(dirname "$resolv")"
		touch "$resolv"
	fi
	mount --bind "$conf/resolv.conf" /etc/resolv.conf
	mount --bind "$conf/hosts" /etc/hosts
	mount --bind "$logs" /var/log
	mount --bind "$dir/kubelet" /var/lib/kubelet
	mount --bind "$dir/cni" /var/lib/cni
	mount --bind "$dir/volumes" /tmp/hostpath_pv
	mount -t proc proc /proc
	echo "$node" >/proc/sys/kernel/hostname
	ip link set lo up
	echo 1 >/proc/sys/net/ipv4/ip_forward
	echo "$pid" >"$dir/init.pid"
	exec "$tools/node-init" "$dir/volumes"
}

namespaces() {
	local point
	# The node mounts its own folders here. On the host, these folders stay empty.
	for point in /var/lib/kubelet /var/lib/cni /tmp/hostpath_pv; do
		[[ -d $point ]] || { mkdir -p "$point" && echo "$point" >>"$dir/mountpoints"; }
	done
	component=namespaces
	setsid unshare --net --mount --pid --uts --fork --propagation private -- "$self" inside \
		</dev/null >"$logs/namespaces.log" 2>&1 8>&- 9>&- &
	echo $! >"$dir/pids/namespaces"
	disown # the shell prints no message at its end
	until_ready namespaces 10 init_pid
	component=namespaces
	{
		ip link add "$node" type veth peer name eth0 netns "$(init_pid)"
		ip addr add "$host_ip/30" dev "$node"
		ip link set "$node" up
		enter ip addr add "$node_ip/30" dev eth0
		enter ip link set eth0 up
		enter ip addr add "$outside_ip/32" dev lo
		# Packets to Service addresses need a route before kube-proxy rewrites the addresses.
		enter ip route add default via "$host_ip"
		ip route add "$service_cidr" via "$node_ip" dev "$node"
		ip route add "$pod_cidr" via "$node_ip" dev "$node"
	} >>"$logs/namespaces.log" 2>&1
	component=
}

control_plane() {
	begin etcd etcd --name node --data-dir "$dir/etcd" --unsafe-no-fsync --log-level warn \
		--listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380 --initial-cluster node=http://127.0.0.1:2380 \
		--initial-advertise-peer-urls http://127.0.0.1:2380
	begin registry registry serve "$conf/registry.yaml"
	begin outside node-outside "$outside_ip:443" "$pki/outside.crt" "$pki/outside.key"
	begin containerd containerd --config "$conf/containerd.toml"
	begin kube-apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 \
		--bind-address "$node_ip" --advertise-address "$node_ip" --secure-port 6443 \
		--service-cluster-ip-range "$service_cidr" --allow-privileged \
		--authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
		--client-ca-file "$pki/ca.crt" --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" \
		--kubelet-certificate-authority "$pki/ca.crt" --kubelet-preferred-address-types InternalIP \
		--kubelet-client-certificate "$pki/kubelet-client.crt" --kubelet-client-key "$pki/kubelet-client.key" \
		--service-account-issuer https://kubernetes.default.svc.cluster.local \
		--service-account-key-file "$pki/service-account.key" --service-account-signing-key-file "$pki/service-account.key" \
		--requestheader-client-ca-file "$pki/front-proxy-ca.crt" --requestheader-allowed-names front-proxy \
		--requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
		--requestheader-extra-headers-prefix X-Remote-Extra- \
		--proxy-client-cert-file "$pki/front-proxy.crt" --proxy-client-key-file "$pki/front-proxy.key"
	until_ready containerd 30 enter ctr version
	import_pause
	until_ready registry 30 listens "$node_ip" 443
	until_ready kube-apiserver 60 kubectl get --raw /readyz --request-timeout 2s
	say 'etcd, the API server, containerd and the registry are ready'
}

# The image of the process that holds a pod's namespaces. It is written without an image tool.
import_pause() {
	local work=$dir/pause digest
	component=containerd
	mkdir -p "$work/root"
	cp "$tools/pause" "$work/root/pause"
	tar --create --file "$work/layer.tar" --directory "$work/root" --owner 0 --group 0 --mtime @0 pause
	digest=$(sha256sum "$work/layer.tar")
	printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/pause"],"User":"65535:65535"},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
		"$(dpkg --print-architecture)" "${digest%% *}" >"$work/config.json"
	printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$pause_image" >"$work/manifest.json"
	tar --create --file "$work/image.tar" --directory "$work" manifest.json config.json layer.tar
	enter ctr --namespace k8s.io images import "$work/image.tar" >>"$logs/images.log" 2>&1 ||
		{ component=images; return 1; }
	rm -rf "$work"
	component=
}

workers() {
	begin kube-controller-manager kube-controller-manager --kubeconfig "$conf/kube-controller-manager" \
		--bind-address 127.0.0.1 --leader-elect=false --use-service-account-credentials \
		--service-account-private-key-file "$pki/service-account.key" --root-ca-file "$pki/ca.crt" \
		--cluster-signing-cert-file "$pki/ca.crt" --cluster-signing-key-file "$pki/ca.key" \
		--allocate-node-cidrs --cluster-cidr "$pod_cidr" --node-cidr-mask-size 24 \
		--service-cluster-ip-range "$service_cidr" --enable-hostpath-provisioner
	begin kube-scheduler kube-scheduler --kubeconfig "$conf/kube-scheduler" --bind-address 127.0.0.1 --leader-elect=false
	begin kubelet kubelet --config "$conf/kubelet.yaml" --kubeconfig "$conf/kubelet" \
		--hostname-override "$node" --node-ip "$node_ip"
	begin kube-proxy kube-proxy --kubeconfig "$conf/kube-proxy" --hostname-override "$node" \
		--proxy-mode iptables --cluster-cidr "$pod_cidr" --healthz-bind-address "$node_ip:10256" \
		--conntrack-max-per-core 0 --conntrack-tcp-timeout-established 0 --conntrack-tcp-timeout-close-wait 0
	component=kube-apiserver
	objects | kubectl apply -f - >"$logs/objects.log" 2>&1 || { component=objects; return 1; }
	component=
	begin coredns coredns -conf "$conf/Corefile"
	until_ready kubelet 60 kubectl get node "$node"
	until_ready kubelet 60 kubectl wait --for condition=Ready "node/$node" --timeout 1s
	say 'the node is Ready'
	until_ready kube-controller-manager 30 kubectl get --namespace default serviceaccount default
	until_ready kube-proxy 30 answers "$node_ip" 10256 /healthz
	until_ready coredns 30 answers "$node_ip" 8181 /ready
	say 'Service addresses and DNS are ready'
}

failed() {
	local status=$?
	trap - EXIT
	exec >&8 2>&8 # a step may have redirected them to its log
	((status)) || exit 0
	if [[ -n $component && -s $logs/$component.log ]]; then
		echo "--- the end of $logs/$component.log" >&2
		tail -n 25 "$logs/$component.log" >&2
	fi
	stop
	echo "node.sh: the node did not come up; the logs are in $logs" >&2
	exit "$status"
}

# Only one node at a time on a machine.
lock() {
	exec 9>"/run/lock/$node.lock"
	flock 9
}

up() {
	((EUID == 0)) || die 'the node needs root'
	local tool
	for tool in etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet kube-proxy coredns registry node-init node-outside pause; do
		[[ -x $tools/$tool ]] || die "$tools/$tool is missing: run 'make tools' first"
	done
	lock
	if running; then
		echo "node $node is running, KUBECONFIG=$KUBECONFIG"
		return
	fi
	stop
	! ip link show "$node" >/dev/null 2>&1 || die "another node runs on this machine: its network link is $node"
	clean
	mkdir -p "$logs" "$pki" "$conf" "$dir/pids" "$dir/commands" "$dir/kubelet" "$dir/cni" "$dir/volumes" "$registry_dir"
	exec 8>&2
	trap failed EXIT
	packages containerd runc iptables conntrack ip /usr/lib/cni/ptp pkill openssl \
		8>&- 9>&- # only this script holds the lock
	component=configuration
	configure >"$logs/configuration.log" 2>&1
	component=
	say 'certificates and configuration are written'
	namespaces
	control_plane
	workers
	trap - EXIT
	echo "node $node is up, KUBECONFIG=$KUBECONFIG"
}

# Ends every process. The kernel then removes the mounts and the network together with the namespaces.
stop() {
	local pid point
	if pid=$(init_pid); then
		kill -KILL "$pid"
		# init is the last process to be reaped.
		while [[ -e /proc/$pid ]]; do sleep 0.05; done
	fi
	if [[ -e $dir/init.pid ]]; then
		ip link delete "$node" 2>/dev/null || true # the kernel also deletes it, a little later
		cgroups
	fi
	rm -rf "$dir/pids" "$dir/commands" "$dir/init.pid"
	if [[ -f $dir/mountpoints ]]; then
		while read -r point; do rmdir "$point" 2>/dev/null || true; done <"$dir/mountpoints"
		rm -f "$dir/mountpoints"
	fi
}

# The kubelet uses the host's control groups, because there is only one tree of them.
cgroups() {
	local tree
	for tree in /sys/fs/cgroup/kubepods /sys/fs/cgroup/*/kubepods; do
		[[ ! -d $tree ]] || find "$tree" -depth -type d -exec rmdir {} + 2>/dev/null || true
	done
}

clean() { [[ ! -d $dir ]] || rm -rf --one-file-system "$dir"; }

down() {
	((EUID == 0)) || die 'the node needs root'
	lock
	[[ -e $dir/init.pid ]] || ! ip link show "$node" >/dev/null 2>&1 || die "no node runs in $dir, and another one runs on this machine: its network link is $node"
	stop
	clean
	rmdir "$(dirname "$dir")" 2>/dev/null || true
	rm -f "/run/lock/$node.lock"
	echo "node $node is gone; its registry's images stay in $registry_dir"
}

status() {
	running || { echo "node $node is not running"; exit 1; }
	echo "node $node is running, KUBECONFIG=$KUBECONFIG"
	local name
	for name in "$dir"/pids/*; do
		name=${name##*/}
		alive "$name" || echo "$name has ended: $logs/$name.log"
	done
	kubectl get nodes -o wide
}

# restart PROCESS: restarts a process as a service manager does after a crash.
restart() {
	local name=${1:?the name of a process in $dir/commands} command
	running || die 'the node is not running'
	[[ -f $dir/commands/$name ]] || die "the node has no process $name; it has $(ls "$dir/commands" | xargs)"
	mapfile -d '' -t command <"$dir/commands/$name"
	# Kill the process inside the namespaces. The file has the process ID of its parent, the command that entered the namespaces. The
	# parent ends with its child.
	pkill -KILL -P "$(cat "$dir/pids/$name")" || die "$name has ended already"
	while alive "$name"; do sleep 0.05; done
	begin "$name" "${command[@]}"
	echo "restarted $name"
}

in_node() {
	[[ ${1:-} != -- ]] || shift
	(($#)) || die "usage: $0 exec -- COMMAND..."
	export SSL_CERT_FILE=$pki/bundle.crt
	enter "$@"
}

case ${1:-} in
up | down | status | inside) "$1" ;;
restart) restart "${2:-}" ;;
exec) shift && in_node "$@" ;;
*) die "usage: $0 up|down|status|restart PROCESS|exec -- COMMAND..." ;;
esac
