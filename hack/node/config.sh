# shellcheck shell=bash disable=SC2154
# Writes the files that hack/node/node.sh needs before it starts the node: certificates, configuration, first objects.

pause_image=localhost/pause:1

# authority NAME
authority() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj "/CN=$1" \
		-addext keyUsage=critical,keyCertSign,cRLSign -keyout "$pki/$1.key" -out "$pki/$1.crt"
}

# certificate NAME AUTHORITY SUBJECT [ALTERNATIVE NAMES]
certificate() {
	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$3" \
		-keyout "$pki/$1.key" -out "$pki/$1.csr"
	openssl x509 -req -in "$pki/$1.csr" -CA "$pki/$2.crt" -CAkey "$pki/$2.key" -set_serial "0x$(openssl rand -hex 8)" \
		-days 365 -out "$pki/$1.crt" -extfile <(
			echo 'keyUsage=critical,digitalSignature'
			echo 'extendedKeyUsage=serverAuth,clientAuth'
			[[ -z ${4:-} ]] || echo "subjectAltName=$4"
		)
	rm "$pki/$1.csr"
}

# user NAME SUBJECT FILE: creates a certificate, and a kubeconfig with it.
user() {
	certificate "$1" ca "$2"
	cat >"$3" <<-YAML
		apiVersion: v1
		kind: Config
		current-context: node
		contexts: [{name: node, context: {cluster: node, user: $1}}]
		clusters:
		- name: node
		  cluster:
		    server: https://$node_ip:6443
		    certificate-authority-data: $(base64 -w 0 "$pki/ca.crt")
		users:
		- name: $1
		  user:
		    client-certificate-data: $(base64 -w 0 "$pki/$1.crt")
		    client-key-data: $(base64 -w 0 "$pki/$1.key")
	YAML
	chmod 600 "$3"
}

certificates() {
	authority ca
	authority front-proxy-ca
	# For tools that read all files of a folder.
	mkdir -p "$pki/trust"
	cp "$pki/ca.crt" "$pki/trust/"
	certificate apiserver ca /CN=kube-apiserver \
		"IP:$node_ip,IP:127.0.0.1,IP:$api_ip,DNS:localhost,DNS:$node,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
	certificate kubelet-client ca /O=system:masters/CN=kube-apiserver-kubelet-client
	certificate kubelet-server ca "/O=system:nodes/CN=system:node:$node" "IP:$node_ip,DNS:$node"
	certificate front-proxy front-proxy-ca /CN=front-proxy
	certificate registry ca /CN=registry "IP:$node_ip,$(printf 'DNS:%s,' "${registries[@]}" | sed 's/,$//')"
	# Images that trust this CA outlive the node, so the CA does, too.
	if ! openssl x509 -checkend 86400 -in "$registry_dir/pki/outside-ca.crt"; then
		mkdir -p "$registry_dir/pki"
		pki=$registry_dir/pki authority outside-ca
	fi
	cp "$registry_dir"/pki/outside-ca.{crt,key} "$pki"
	certificate outside outside-ca /CN=outside "$(printf ',DNS:%s' "${outside[@]}" | cut -c 2-)"
	openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$pki/service-account.key"
	user admin /O=system:masters/CN=admin "$KUBECONFIG"
	user kube-controller-manager /CN=system:kube-controller-manager "$conf/kube-controller-manager"
	user kube-scheduler /CN=system:kube-scheduler "$conf/kube-scheduler"
	user kubelet "/O=system:nodes/CN=system:node:$node" "$conf/kubelet"
	user kube-proxy /CN=system:kube-proxy "$conf/kube-proxy"
	user coredns /CN=system:coredns "$conf/coredns"
	# For commands inside the node that reach a registry by its name.
	cat /etc/ssl/certs/ca-certificates.crt "$pki/ca.crt" >"$pki/bundle.crt" 2>/dev/null || cp "$pki/ca.crt" "$pki/bundle.crt"
}

# Names by which commands inside the node reach the registry. (containerd needs no list.)
registries=(registry.local registry-edge.cosmoplat.com docker.io registry-1.docker.io quay.io ghcr.io gcr.io registry.k8s.io registry.access.redhat.com)
# Names on the internet that the samples use.
outside=(id.cosmoplat.com id.example.com login.example.com)

configure() {
	certificates
	[[ -e $dir/hosts ]] || printf '%s\n' '# Names outside the cluster that pods find: ADDRESS NAME...' \
		"$outside_ip ${outside[*]}" >"$dir/hosts"
	printf 'nameserver %s\nsearch svc.cluster.local cluster.local\n' "$node_ip" >"$conf/resolv.conf"
	printf '127.0.0.1 localhost\n%s %s %s\n' "$node_ip" "$node" "${registries[*]}" >"$conf/hosts"

	cat >"$conf/registry.yaml" <<-YAML
		version: 0.1
		log: {level: warn, accesslog: {disabled: true}}
		storage:
		  filesystem: {rootdirectory: "$registry_dir"}
		  delete: {enabled: true}
		http:
		  addr: "$node_ip:443"
		  secret: of one process only
		  tls: {certificate: "$pki/registry.crt", key: "$pki/registry.key"}
	YAML

	# Every registry name leads to this registry. Without the server line, containerd would then try the real registry.
	mkdir -p "$conf/certs.d/_default"
	cat >"$conf/certs.d/_default/hosts.toml" <<-TOML
		server = "https://$node_ip"
		[host."https://$node_ip"]
		  capabilities = ["pull", "resolve"]
		  ca = "$pki/ca.crt"
	TOML

	local snapshotter=overlayfs oom=false
	# An overlay cannot be mounted on another overlay, such as a container's file system.
	[[ $(stat --file-system --format %T "$dir") != overlayfs ]] || snapshotter=native
	# Without CAP_SYS_RESOURCE (bit 24), no process can be protected from the kernel's out-of-memory killer.
	(("0x$(awk '$1 == "CapEff:" {print $2}' /proc/self/status)" >> 24 & 1)) || oom=true
	cat >"$conf/containerd.toml" <<-TOML
		version = 2
		root = "$dir/containerd"
		state = "/run/containerd"
		disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
		[grpc]
		  address = "/run/containerd/containerd.sock"
		[plugins."io.containerd.internal.v1.opt"]
		  path = "$dir/containerd/opt"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "$pause_image"
		  restrict_oom_score_adj = $oom
		[plugins."io.containerd.grpc.v1.cri".containerd]
		  snapshotter = "$snapshotter"
		[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		  runtime_type = "io.containerd.runc.v2"
		[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
		  SystemdCgroup = false
		[plugins."io.containerd.grpc.v1.cri".cni]
		  bin_dir = "/usr/lib/cni"
		  conf_dir = "$conf/cni"
		[plugins."io.containerd.grpc.v1.cri".registry]
		  config_path = "$conf/certs.d"
	TOML

	# Each pod has a separate link (ptp) instead of a bridge. So the response of a Service passes through the node, which restores the
	# Service's address. This does not need the kernel module br_netfilter.
	mkdir -p "$conf/cni"
	cat >"$conf/cni/10-node.conflist" <<-JSON
		{
		  "cniVersion": "0.4.0",
		  "name": "node",
		  "plugins": [
		    {"type": "ptp", "mtu": 1500, "ipam": {
		      "type": "host-local", "dataDir": "/var/lib/cni/networks",
		      "ranges": [[{"subnet": "$pod_cidr"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
		    {"type": "portmap", "capabilities": {"portMappings": true}}
		  ]
		}
	JSON

	cat >"$conf/kubelet.yaml" <<-YAML
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		address: $node_ip
		authentication:
		  anonymous: {enabled: false}
		  webhook: {enabled: true}
		  x509: {clientCAFile: "$pki/ca.crt"}
		authorization: {mode: Webhook}
		tlsCertFile: $pki/kubelet-server.crt
		tlsPrivateKeyFile: $pki/kubelet-server.key
		containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
		volumePluginDir: /var/lib/kubelet/volume-plugins
		clusterDNS: ["$dns_ip"]
		clusterDomain: cluster.local
		resolvConf: $conf/resolv.conf
		healthzBindAddress: 127.0.0.1
		# The machine may have old control groups, swap, an almost full disk, or two cores.
		cgroupDriver: cgroupfs
		failCgroupV1: false
		failSwapOn: false
		protectKernelDefaults: false
		imageGCHighThresholdPercent: 100
		evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%, imagefs.inodesFree: 1%}
		oomScoreAdj: 0
		serializeImagePulls: false
		maxPods: 110
		# Frequent updates, because tests wait for them.
		nodeStatusUpdateFrequency: 2s
		syncFrequency: 10s
		logging: {verbosity: 1}
	YAML

	cat >"$conf/Corefile" <<-COREFILE
		.:53 {
		  bind $node_ip
		  ready $node_ip:8181
		  errors
		  kubernetes cluster.local in-addr.arpa ip6.arpa {
		    kubeconfig $conf/coredns
		    pods insecure
		    ttl 5
		  }
		  hosts $dir/hosts {
		    ttl 5
		    reload 2s
		    fallthrough
		  }
		  # There is no internet: any other name does not exist, and the answer is immediate.
		  template ANY ANY . {
		    rcode NXDOMAIN
		  }
		}
	COREFILE
}

objects() {
	cat <<-YAML
		apiVersion: storage.k8s.io/v1
		kind: StorageClass
		metadata:
		  name: standard
		  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
		provisioner: kubernetes.io/host-path
		allowVolumeExpansion: true
		---
		apiVersion: rbac.authorization.k8s.io/v1
		kind: ClusterRole
		metadata: {name: system:coredns}
		rules:
		- {apiGroups: [""], resources: [services, pods, namespaces], verbs: [list, watch]}
		- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
		---
		apiVersion: rbac.authorization.k8s.io/v1
		kind: ClusterRoleBinding
		metadata: {name: system:coredns}
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:coredns}
		subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: system:coredns}]
		---
		# CoreDNS is a process of the node and not a pod, so its address is fixed.
		apiVersion: v1
		kind: Service
		metadata: {name: kube-dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
		spec:
		  clusterIP: $dns_ip
		  ports:
		  - {name: dns, port: 53, protocol: UDP}
		  - {name: dns-tcp, port: 53, protocol: TCP}
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: kube-dns, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
		addressType: IPv4
		ports:
		- {name: dns, port: 53, protocol: UDP}
		- {name: dns-tcp, port: 53, protocol: TCP}
		endpoints: [{addresses: ["$node_ip"], conditions: {ready: true}}]
	YAML
}
