// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"d3os.com/d3os-operator/test/harness/process"
)

// redisPod is a folder that replaces the file system of a Redis container for the scripts.
type redisPod struct {
	*testing.T
	root string
}

// newRedisPod writes the files of a container: the scripts, the configuration, and replacements for Redis' programs.
func newRedisPod(t *testing.T) *redisPod {
	t.Helper()
	p := &redisPod{T: t, root: t.TempDir()}
	files, err := filepath.Glob("rediscluster/files/*.sh")
	assert.NilError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		assert.NilError(t, err)
		text := string(data)
		for _, folder := range []string{"/data", "/shared", "/scripts/", "/credentials", "/settings/", "/config/", "/run/redis"} {
			text = strings.ReplaceAll(text, " "+folder, " "+p.root+folder)
			text = strings.ReplaceAll(text, "="+folder, "="+p.root+folder)
			text = strings.ReplaceAll(text, "<"+folder, "<"+p.root+folder)
			text = strings.ReplaceAll(text, "'"+folder, "'"+p.root+folder)
		}
		p.write("scripts/"+filepath.Base(file), text)
	}
	p.server("7.0.15")
	p.write("credentials/password", `a"b\c`)
	p.write("config/redis.conf", "daemonize no\n")
	p.write("config/settings.conf", "maxmemory-policy allkeys-lru\n")
	assert.NilError(t, os.MkdirAll(filepath.Join(p.root, "run/redis"), 0o700))
	return p
}

func (p *redisPod) write(name, text string) {
	p.Helper()
	file := filepath.Join(p.root, name)
	assert.NilError(p, os.MkdirAll(filepath.Dir(file), 0o700))
	assert.NilError(p, os.WriteFile(file, []byte(text), 0o700))
}

// server writes a redis-server that prints its configuration. For a configuration on its input, it prints the first unknown line, like
// Redis.
func (p *redisPod) server(version string) {
	p.Helper()
	p.write("bin/redis-server", `#!/bin/sh
case $1 in
--version) echo 'Redis server v=`+version+` sha=0' ;;
-) sed -n "s/^\(unknown.*\|end-of-settings\)\$/>>> '\1'/p" | head -n 1 ;;
*) cat "$1" ;;
esac
`)
}

func (p *redisPod) read(name string) string {
	p.Helper()
	data, err := os.ReadFile(filepath.Join(p.root, name))
	assert.NilError(p, err)
	return string(data)
}

func (p *redisPod) has(name string) bool {
	_, err := os.Stat(filepath.Join(p.root, name))
	return err == nil
}

// run runs a script and returns its output.
func (p *redisPod) run(script string, env ...string) (string, error) {
	p.Helper()
	command := exec.CommandContext(p.Context(), "/bin/sh", filepath.Join(p.root, "scripts", script))
	command.Env = append([]string{
		"PATH=" + filepath.Join(p.root, "bin") + ":" + os.Getenv("PATH"), "POD_IP=10.0.0.1", "POD_NAME=cache-0-0", "POD_NAMESPACE=data", "SERVICE=cache-headless",
	}, env...)
	out, err := command.CombinedOutput()
	return strings.ReplaceAll(string(out), p.root, ""), err
}

// The configuration of a pod contains the pod's identity, the password in quotes, and the memory.
func TestRedisStarts(t *testing.T) {
	t.Parallel()
	p := newRedisPod(t)
	out, err := p.run("start.sh")
	assert.NilError(t, err, out)
	assert.Equal(t, out, `include /run/redis/settings.conf
port 6379
bind * -::*
dir "/data"
cluster-announce-ip 10.0.0.1
cluster-announce-hostname cache-0-0.cache-headless.data.svc
syslog-ident used=
aof-load-truncated no
requirepass "a\"b\\c"
masteruser "replica:data/cache-0"
masterauth "a\"b\\c"
user replica:data/cache-0 off resetkeys resetchannels -@all +psync +sync +replconf +ping ">a\"b\\c"
user d3os-marks off resetkeys resetchannels -@all
`)
	for env, want := range map[string]string{"POD_IP=127.0.0.9": "bind 127.0.0.9\n", "SHARED_FOLDER=cache": `dir "/shared/cache/cache-0-0"`} {
		out, err := p.run("start.sh", env)
		assert.NilError(t, err, out)
		assert.Assert(t, cmp.Contains(out, want))
	}
	for env, want := range map[string]string{"MEMORY_LIMIT=4294967296": "maxmemory 3221225472\n", "MAXMEMORY=2gb": "maxmemory 2gb\n"} {
		out, err := p.run("start.sh", env)
		assert.NilError(t, err, out)
		assert.Equal(t, p.read("run/redis/settings.conf"), "daemonize no\n"+want+"\nmaxmemory-policy allkeys-lru\n")
	}
	p.server("6.2.14")
	out, err = p.run("start.sh")
	assert.NilError(t, err, out)
	assert.Assert(t, !strings.Contains(out, "announce-hostname"), "Redis 6.2 does not know it")
}

// A server that has lost its data does not start with its former id; a server with data does.
func TestStartWithoutData(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files []string
		stays bool
	}{
		"new":                    {nil, false},
		"all files":              {[]string{"data/nodes.conf", "data/appendonlydir/appendonly.aof.manifest"}, true},
		"all files of Redis 6.2": {[]string{"data/nodes.conf", "data/appendonly.aof"}, true},
		"no data":                {[]string{"data/nodes.conf"}, false},
		"only a snapshot":        {[]string{"data/nodes.conf", "data/dump.rdb"}, false},
		"no manifest":            {[]string{"data/nodes.conf", "data/appendonlydir/appendonly.aof.1.base.rdb"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRedisPod(t)
			for _, file := range c.files {
				p.write(file, "text")
			}
			out, err := p.run("start.sh")
			assert.NilError(t, err, out)
			assert.Equal(t, p.has("data/nodes.conf"), c.stays)
			assert.Equal(t, p.has("data/nodes.conf.without-data"), len(c.files) > 0 && !c.stays)
		})
	}
}

// After an interrupted start, an unfinished end of the append-only file is cut off. Other errors of redis-check-aof are damage, because commands
// after the error would be lost.
func TestEndOfTheFile(t *testing.T) {
	t.Parallel()
	check, err := process.Program("REDIS", "redis", "redis-check-aof")
	assert.NilError(t, err)
	command := func(words ...string) string {
		text := fmt.Sprintf("*%d\r\n", len(words))
		for _, word := range words {
			text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
		}
		return text
	}
	set := func(key string) string { return command("SET", key, "value") }
	large := command("SET", "large", strings.Repeat("v", 10000))
	less := func(text string, bytes int) string { return text[:len(text)-bytes] }
	multi, exec := command("MULTI"), command("EXEC")
	kept := set("a") + multi + set("b") + exec
	for name, c := range map[string]struct {
		rest string
		tail bool
	}{
		"an incomplete command":                        {less(set("c"), 5), true},
		"an incomplete large command":                  {less(large, 5), true},
		"the first byte of a command":                  {"*", true},
		"an incomplete command before another command": {less(set("c"), 11) + set("d"), false},
		"zeros":                            {strings.Repeat("\x00", 5000), false},
		"only MULTI":                       {multi, true},
		"a part of MULTI":                  {less(multi, 4), true},
		"a transaction without EXEC":       {multi + set("c") + set("d"), true},
		"a part of EXEC":                   {multi + set("c") + set("d") + less(exec, 5), true},
		"EXEC without the end of its line": {multi + set("c") + set("d") + less(exec, 1), true},
		"a part of the second command of a transaction":          {multi + set("c") + less(set("d"), 5), true},
		"an incomplete large command in a transaction":           {multi + set("c") + less(large, 5), true},
		"damage in a transaction":                                {multi + set("c") + "*3\r\n$9" + set("d") + exec, false},
		"damage in a transaction, before its EXEC":               {multi + set("c") + strings.Replace(set("d"), "$5", "$9", 1) + exec, false},
		"damage in a transaction, and more commands follow":      {multi + strings.Replace(set("c"), "$5", "$99999999", 1) + set("d") + exec + kept, false},
		"zeros in a transaction":                                 {multi + set("c") + strings.Repeat("\x00", 5000), false},
		"an incomplete large command and zeros in a transaction": {multi + set("c") + less(large, 5000) + strings.Repeat("\x00", 4000), false},
		"a transaction in a transaction":                         {multi + set("c") + multi + set("d") + exec, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRedisPod(t)
			p.write("bin/redis-check-aof", "#!/bin/sh\nexec "+check+" \"$@\"\n")
			p.write("data/appendonlydir/appendonly.aof.manifest", "file appendonly.aof.1.incr.aof seq 1 type i\n")
			p.write("data/appendonlydir/appendonly.aof.1.incr.aof", kept+c.rest)
			p.write("run/redis/starting", "")
			out, err := p.run("start.sh")
			file := p.read("data/appendonlydir/appendonly.aof.1.incr.aof")
			if !c.tail {
				assert.ErrorContains(t, err, "exit status 67")
				assert.Assert(t, cmp.Contains(out, "DataDamaged: appendonly.aof.1.incr.aof is damaged"))
				assert.Equal(t, file, kept+c.rest)
				return
			}
			assert.NilError(t, err, out)
			assert.Equal(t, file, kept)
			assert.Equal(t, p.read("data/cut-off"), c.rest)
		})
	}
}

// The operator reads the size of a volume's kept files, including files that this start sets aside.
func TestKeptFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, ident string
		bytes       int
	}{
		"small":               {"data/nodes.conf.damaged", "used=", 100},
		"damaged":             {"data/appendonlydir.damaged-2/appendonly.aof.1.incr.aof", "used=/kept=2", 2 << 20},
		"of the past":         {"data/appendonly.aof.of-the-past", "used=/kept=2", 2 << 20},
		"set aside just now":  {"data/dump.rdb", "used=/kept=2", 2 << 20},
		"data of this server": {"data/appendonly.aof", "used=", 2 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRedisPod(t)
			p.write(c.file, strings.Repeat("x", c.bytes))
			out, err := p.run("start.sh")
			assert.NilError(t, err, out)
			assert.Assert(t, cmp.Contains(out, "\nsyslog-ident "+c.ident+"\n"))
		})
	}
}

// A server accepts only replicas of the same shard, and none before it has data to copy: a new node may have the address of a lost master.
func TestReplicasOfANewNode(t *testing.T) {
	t.Parallel()
	const me, other = "8747969ea367d8323671d14aa89dcb40c9c6cd24", "45c59b1ff70b16032914a7e9b939b6438eb38ff2"
	for name, c := range map[string]struct{ nodes, want string }{
		"new": {"", "off"},
		"met another node, without slots and replicas": {me + " 10.0.0.1:6379@16379 myself,master - 0 0 1 connected\n" + other + " 10.0.0.2:6379@16379 master - 0 0 2 connected 0-9\n", "off"},
		"a master with slots":                          {me + " 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-9\n", "on"},
		"a replica":                                    {me + " 10.0.0.1:6379@16379 myself,slave " + other + " 0 0 1 connected\n", "on"},
		"a master with a replica":                      {me + " 10.0.0.1:6379@16379 myself,master - 0 0 1 connected\n" + other + " 10.0.0.2:6379@16379 slave " + me + " 0 0 2 connected\n", "on"},
		"a master, and a replica of another master":    {me + " 10.0.0.1:6379@16379 myself,master - 0 0 1 connected\n" + other + " 10.0.0.2:6379@16379 slave " + other + " 0 0 2 connected\n", "off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRedisPod(t)
			if c.nodes != "" {
				p.write("data/nodes.conf", c.nodes+"vars currentEpoch 3 lastVoteEpoch 0\n")
				p.write("data/appendonly.aof", "")
			}
			out, err := p.run("start.sh")
			assert.NilError(t, err, out)
			assert.Assert(t, cmp.Contains(out, "user replica:data/cache-0 "+c.want+" "))
		})
	}
}

const (
	redisNode, redisReplica, redisOther = "8747969ea367d8323671d14aa89dcb40c9c6cd24", "45c59b1ff70b16032914a7e9b939b6438eb38ff2", "9f1b1d0f7b4b1c0d2a3e4f5061728394a5b6c7d8"
	redisNow                            = 1_700_000_000
)

// seconds returns the text of a file with a time.
func seconds(n int) string { return fmt.Sprintln(redisNow + n) }

// master writes the volume of one of two masters, with or without a replica, and a clock that is slow to answer.
func (p *redisPod) master(hasReplica bool) {
	p.Helper()
	nodes := redisNode + " 10.0.0.1:6379@16379,cache-0-0.svc myself,master - 0 0 1 connected 0-8000\n" +
		redisOther + " 10.0.0.3:6379@16379,cache-1-0.svc master - 0 0 2 connected 8001-16383\n"
	if hasReplica {
		nodes += redisReplica + " 10.0.0.2:6379@16379,cache-0-1.svc slave " + redisNode + " 0 0 1 connected\n"
	}
	p.write("data/nodes.conf", nodes)
	p.write("data/appendonly.aof", "")
	p.write("clock", fmt.Sprint(redisNow))
	// Each query of the time takes five seconds.
	p.write("bin/date", "#!/bin/sh\n[ $1 = +%s ] || exec /bin/date \"$@\"\necho $(($(cat "+p.root+"/clock) + 5)) >"+p.root+"/clock.new\n"+
		"mv "+p.root+"/clock.new "+p.root+"/clock\ncat "+p.root+"/clock\n")
	p.write("bin/sleep", "#!/bin/sh\n")
}

// All pods of a cluster restart. The replica's note shows whether the storage has restored an earlier state of the master's volume. The
// state may be seconds or hours older, and the clocks may be wrong. If the replica does not answer, no replica may copy the master, also
// after the next restart.
func TestVolumePutBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alive, unproven, mark string // the volume
		seen                  string // the note of the replica; empty if it does not answer
		other                 string // the note of the other master; empty if it does not answer
		used, admits          string // empty if the server does not start
	}{
		"restored to its state of twenty seconds ago":                       {seconds(-20), "", seconds(-20), seconds(-10), "", "", ""},
		"restored to its state of a minute ago":                             {seconds(-60), "", seconds(-60), seconds(-5), "", "", ""},
		"restored to its state of hours ago, after a long stop":             {seconds(-9000), "", seconds(-9000), seconds(-600), "", "", ""},
		"restored to its state before its first mark":                       {seconds(-60), "", "", seconds(-5), "", "", ""},
		"restored to an older state, and its clock was ahead":               {seconds(900), "", seconds(900), seconds(901), "", "", ""},
		"its replica has noted its last mark":                               {seconds(-5), "", seconds(-5), seconds(-5), "", "", "on"},
		"its replica has noted the mark before the last":                    {seconds(-5), "", seconds(-5), seconds(-15), "", "", "on"},
		"its replica had no link before the stop":                           {seconds(-600), "", seconds(-600), seconds(-9000), "", "1699999400", "off"},
		"its replica had no link, and another master has a recent mark":     {seconds(-600), "", seconds(-600), seconds(-9000), seconds(-605), "", "on"},
		"its replica had no link, and another master has a later mark":      {seconds(-600), "", seconds(-600), seconds(-9000), seconds(-590), "", ""},
		"its replica had no link, and another master has no note":           {seconds(-600), "", seconds(-600), seconds(-9000), "none", "", "on"},
		"its replica has noted nothing":                                     {seconds(-600), "", seconds(-600), "none", "", "1699999400", "off"},
		"no node has noted anything":                                        {seconds(-600), "", "", "none", "none", "", "on"},
		"its replica does not answer":                                       {seconds(-602), "", seconds(-600), "", "", "1699999400", "off"},
		"its replica does not answer, and another master has a recent mark": {seconds(-600), "", seconds(-600), "", seconds(-605), "", "on"},
		"its replica does not answer after a short stop":                    {seconds(-20), "", seconds(-20), "", "", "1699999980", "off"},
		"it has no mark, and its replica does not answer":                   {seconds(-600), "", "", "", "", "1699999400", "off"},
		"after a start without a proof, its replica does not answer":        {seconds(-20), seconds(-602), seconds(-600), "", "", "1699999400", "off"},
		"after a start without a proof, its replica has the last mark":      {seconds(-20), seconds(-602), seconds(-600), seconds(-600), "", "", "on"},
		"after a start without a proof, its replica has a later mark":       {seconds(-20), seconds(-602), seconds(-600), seconds(-590), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRedisPod(t)
			p.master(true)
			p.write("data/alive", c.alive)
			for file, text := range map[string]string{"unproven": c.unproven, "mark": c.mark} {
				if text != "" {
					p.write("data/"+file, text)
				}
			}
			// The replica has another address, and answers under its DNS name. The node at its former address proves nothing, also with an old note.
			former := "none"
			if c.mark != "" {
				former = seconds(-20000)
			}
			p.write("bin/redis-cli", "#!/bin/sh\ncase \"$*\" in\n"+answers("10.0.0.2", redisOther, former)+answers("cache-0-1.svc", redisReplica, c.seen)+
				answers("10.0.0.3", redisOther, c.other)+"*) echo 'Could not connect to Redis' ;;\nesac\n")
			out, err := p.run("start.sh")
			if c.admits == "" {
				assert.ErrorContains(t, err, "exit status 67")
				assert.Assert(t, cmp.Contains(out, "DataOutdated: this volume was last in use at"))
				return
			}
			assert.NilError(t, err, out)
			assert.Assert(t, cmp.Contains(out, "\nsyslog-ident used="+c.used+"\n"))
			assert.Assert(t, cmp.Contains(out, "user replica:data/cache-0 "+c.admits+" "))
			assert.Equal(t, p.has("data/unproven"), c.admits == "off")
			if c.unproven != "" && c.admits == "off" {
				assert.Equal(t, p.read("data/unproven"), c.unproven)
			}
		})
	}
}

// answers returns the rows of a redis-cli for a node that has noted a mark of redisNode: "none" for no note, and no rows if seen is empty.
func answers(host, id, seen string) string {
	if seen == "" {
		return ""
	}
	note := ""
	if seen != "none" {
		note = " ~seen:" + redisNode + "=" + strings.TrimSpace(seen)
	}
	keys := "~own:" + id + "=1600000000" + note
	return "*" + host + "*MYID) echo " + id + " ;;\n*" + host + "*LIST) printf 'user default on ~* +@all\nuser d3os-marks off " + keys + " resetchannels -@all\n' ;;\n" +
		"*" + host + "*GETUSER*) printf 'flags\noff\nkeys\n" + keys + "\n' ;;\n"
}

// Without notes, a node that did not restart proves by the time of its last contact that a volume has an older state. Times are compared by
// one clock, and prove nothing after a start without a proof or a short absence.
func TestTimesOfContacts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alive, unproven      string // the volume
		heard, uptime, clock int    // of the other master: its last contact by its clock, relative to redisNow
		starts, proven       bool
	}{
		"contact until long after the last use":     {seconds(-600), "", -300, 9000, 0, false, false},
		"contact until the last use":                {seconds(-600), "", -590, 9000, 0, true, true},
		"contact ended long before the last use":    {seconds(-600), "", -4000, 9000, 0, true, false},
		"its clock is ahead":                        {seconds(-600), "", -390, 9000, 200, true, true},
		"its clock is ahead, and it has restarted":  {seconds(-600), "", 200 - 40, 40, 200, true, false},
		"its clock is ahead, after a short absence": {seconds(-5), "", 200, 9000, 200, true, false},
		"contact while the last start had no proof": {seconds(-5), seconds(-600), 0, 9000, 0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRedisPod(t)
			p.master(false)
			p.write("data/alive", c.alive)
			if c.unproven != "" {
				p.write("data/unproven", c.unproven)
			}
			p.write("bin/redis-cli", fmt.Sprintf("#!/bin/sh\ncase \"$*\" in\n%s*'INFO server') echo uptime_in_seconds:%d ;;\n*TIME) printf '%d\n7\n' ;;\n"+
				"*'CLUSTER NODES') echo '%s 10.0.0.1:6379@16379 master - 0 %d000 1 connected 0-8000' ;;\nesac\n",
				answers("10.0.0.3", redisOther, "none"), c.uptime, redisNow+c.clock, redisNode, redisNow+c.heard))
			out, err := p.run("start.sh")
			assert.Equal(t, err == nil, c.starts, out)
			assert.Equal(t, p.has("data/unproven"), c.starts && !c.proven)
		})
	}
}

// A master without a replica does not wait for other masters, because they may wait for this master. Another master notes its marks. When
// that master answers and has noted no later mark, the probe admits replicas. Until then, the probe makes no mark.
func TestVolumePutBackWithoutReplica(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seen           string // the note of the other master
		starts, proven bool
	}{
		"the other does not answer at the start": {"", true, false},
		"the other has the last mark":            {seconds(-600), true, true},
		"the other has noted nothing":            {"none", true, true},
		"the other has a later mark":             {seconds(-590), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRedisPod(t)
			p.master(false)
			p.write("data/alive", seconds(-600))
			p.write("data/mark", seconds(-600))
			silent, speaks := "#!/bin/sh\necho 'Could not connect to Redis'\n", "#!/bin/sh\necho \"$*\" >>"+p.root+"/asked\ncase \"$*\" in\n"+answers("10.0.0.3", redisOther, c.seen)+
				"*10.0.0.3*) ;;\n*'INFO replication') echo role:master ;;\n*SETUSER*) echo OK ;;\nesac\n"
			p.write("bin/redis-cli", silent)
			out, err := p.run("start.sh")
			assert.NilError(t, err, out)
			assert.Assert(t, cmp.Contains(out, "\nsyslog-ident used=1699999400\n"))
			assert.Assert(t, p.has("data/unproven"))
			if c.seen != "" {
				p.write("bin/redis-cli", speaks)
			}
			for range 2 { // the second run makes the next mark
				out, err = p.run("alive.sh")
				assert.Equal(t, err == nil, c.seen != "", out)
			}
			assert.Equal(t, !p.has("data/unproven"), c.proven, out)
			assert.Equal(t, p.read("data/mark") > seconds(-600), c.proven)
			if c.proven {
				assert.Assert(t, cmp.Contains(p.read("asked"), "ACL SETUSER replica:data/cache-0 on"))
			}
			out, err = p.run("start.sh")
			assert.Equal(t, err == nil, c.starts, out)
		})
	}
}

// The probe of a master writes a mark that never decreases, and shows the mark only after the disk stores it. The probe of a linked replica
// notes its master's mark. The next start writes the notes to the configuration.
func TestNotesOfTheProbe(t *testing.T) {
	t.Parallel()
	const up = `role:slave\r\nmaster_host:10.0.0.3\r\nmaster_port:6379\r\nmaster_link_status:up\r\nmaster_sync_in_progress:0\r\n`
	note := "seen:" + redisOther + "=1600000009"
	for name, c := range map[string]struct {
		info, mark, full string
		wantMark, shows  string
	}{
		"a replica":                 {up, "", "", "", "~" + note},
		"a replica that is copying": {strings.Replace(up, "progress:0", "progress:1", 1), "", "", "", ""},
		"a replica without a link":  {strings.Replace(up, ":up", ":down", 1), "", "", "", ""},
		"a master":                  {`role:master\r\n`, "", "", seconds(0), "~own:" + redisNode + "=1700000000 ~" + note},
		"a master with a mark":      {`role:master\r\n`, seconds(-10), "", seconds(0), "~own:" + redisNode + "=1700000000 ~" + note},
		"its clock was set back":    {`role:master\r\n`, seconds(600), "", seconds(601), "~own:" + redisNode + "=1700000601 ~" + note},
		"its disk fails":            {`role:master\r\n`, seconds(-10), "full", seconds(-10), ""},
		"a server that refuses":     {`ERR max number of clients reached`, "", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRedisPod(t)
			p.master(true)
			if strings.HasPrefix(c.info, "role:slave") {
				p.write("data/nodes.conf", redisNode+" 10.0.0.1:6379@16379,cache-0-0.svc myself,slave "+redisOther+" 0 0 1 connected\n"+
					redisOther+" 10.0.0.3:6379@16379,cache-1-0.svc master - 0 0 2 connected 0-16383\n")
			}
			if c.mark != "" {
				p.write("data/mark", c.mark)
			}
			if c.full != "" {
				p.write("bin/dd", "#!/bin/sh\nexit 1\n")
			}
			p.write("bin/date", "#!/bin/sh\necho 1700000000\n")
			p.write("bin/redis-cli", "#!/bin/sh\necho \"$*\" >>"+p.root+"/asked\ncase \"$*\" in\n*10.0.0.3*GETUSER*) printf 'flags\\noff\\nkeys\\n~own:"+redisOther+"=1600000009 ~seen:"+redisNode+"=5\\n' ;;\n"+
				"*SETUSER*) echo OK ;;\n*) printf '"+c.info+"' ;;\nesac\n")
			out, err := p.run("alive.sh")
			assert.NilError(t, err, out)
			assert.Equal(t, p.read("data/alive"), "1700000000\n")
			if c.wantMark != "" {
				assert.Equal(t, p.read("data/mark"), c.wantMark)
			} else {
				assert.Assert(t, !p.has("data/mark"))
			}
			_, shown, _ := strings.Cut(p.read("asked"), "ACL SETUSER d3os-marks reset ")
			assert.Equal(t, strings.TrimSpace(shown), c.shows)
			assert.NilError(t, os.RemoveAll(filepath.Join(p.root, "data/alive"))) // without the file alive, start.sh queries no node
			out, err = p.run("start.sh")
			assert.NilError(t, err, out)
			own, want := "user d3os-marks off resetkeys resetchannels -@all", ""
			if c.shows != "" {
				want = " ~" + note
			}
			assert.Assert(t, cmp.Contains(out, own+want+"\n"))
		})
	}
}

// A volume of another pod, shard, cluster or namespace counts as a copy, and no server starts on it.
func TestVolumeOfAnother(t *testing.T) {
	t.Parallel()
	for mark, starts := range map[string]bool{"": true, "data/cache-0-0": true, "data/cache-0-1": false, "data/cache-1-0": false, "other/cache-0-0": false, "data/cache2-0-0": false} {
		p := newRedisPod(t)
		if mark != "" {
			p.write("data/owner", mark+"\n")
		}
		out, err := p.run("start.sh")
		assert.Equal(t, err == nil, starts, "%s: %s", mark, out)
		if starts {
			assert.Equal(t, p.read("data/owner"), "data/cache-0-0\n")
		} else {
			assert.Assert(t, cmp.Contains(out, "is a copy of that of "+mark))
			assert.Equal(t, p.read("data/owner"), mark+"\n")
		}
	}
}

// Settings of the operator are removed from the user's ConfigMap, in any notation.
func TestRedisSettingsOfTheUser(t *testing.T) {
	t.Parallel()
	p := newRedisPod(t)
	p.write("settings/redis.conf", "maxmemory-policy allkeys-lru\nPORT 1\n  requirepass a\n\"masterauth\" b\ninclude /etc/passwd\nrename-command CLUSTER x\n"+
		"cluster-node-timeout 1\ncluster-announce-ip a\nappendonly no\nportable yes\n# port 1")
	out, err := p.run("start.sh")
	assert.NilError(t, err, out)
	assert.Equal(t, p.read("run/redis/settings.conf"), "daemonize no\nmaxmemory-policy allkeys-lru\nportable yes\n# port 1\n\nmaxmemory-policy allkeys-lru\n")
}

// A setting that Redis refuses stops a new pod from starting. A server that ran without the setting still restarts.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	p := newRedisPod(t)
	settings := func(says string) string {
		out, err := p.run("start.sh")
		assert.NilError(t, err, out)
		assert.Assert(t, cmp.Contains(out, says))
		return p.read("run/redis/settings.conf")
	}
	p.write("settings/redis.conf", "unknown 1\n")
	assert.Assert(t, cmp.Contains(settings(""), "unknown 1"), "Redis itself reports the wrong setting")
	p.write("settings/redis.conf", "timeout 1\n")
	assert.Assert(t, cmp.Contains(settings(""), "timeout 1"))
	p.write("data/appendonly.aof", "")
	p.write("run/redis/served", "") // as started.sh does
	p.write("settings/redis.conf", "timeout 2\nunknown 1\n")
	assert.Assert(t, cmp.Contains(settings("a setting is wrong: 'unknown 1'"), "timeout 1"))
}

// Scripts use the password from the start of a server, even if the Secret now has another password.
func TestScriptsAfterAChangeOfThePassword(t *testing.T) {
	t.Parallel()
	p := newRedisPod(t)
	out, err := p.run("start.sh")
	assert.NilError(t, err, out)
	p.write("credentials/password", "another")
	p.write("bin/redis-cli", "#!/bin/sh\n[ \"$REDISCLI_AUTH\" = 'a\"b\\c' ] || { echo 'NOAUTH Authentication required.'; exit; }\n"+
		`printf 'role:master\r\nloading:0\r\ncluster_state:ok\r\ncluster_slots_assigned:16384\r\nerrorstat_NOAUTH:count=1\r\n'`)
	out, err = p.run("ready.sh")
	assert.NilError(t, err, out)
	p.write("credentials/password", `a"b\c`)
	p.write("run/redis/password", "former")
	out, err = p.run("ready.sh")
	assert.NilError(t, err, out)
}

// The probes judge a server by its answers.
func TestRedisProbes(t *testing.T) {
	t.Parallel()
	answers := func(ping, info, cluster string) string {
		replication := info
		if info == "" {
			replication = ping
		}
		return "#!/bin/sh\nfor last; do :; done\ncase $last in\nPING) printf '" + ping + "' ;;\nreplication) printf '" + replication + "' ;;\nINFO) [ $(($# - 6)) -gt 0 ] && printf '" + cluster + "' || printf '" + info + "' ;;\nesac\n"
	}
	well, formed := `role:master\r\nloading:0\r\n`, `cluster_state:ok\r\ncluster_slots_assigned:16384\r\n`
	for name, c := range map[string]struct {
		ping, info, cluster   string
		alive, started, ready bool
	}{
		"well":                        {"PONG", well, formed, true, true, true},
		"not formed":                  {"PONG", well, `cluster_state:fail\r\ncluster_slots_assigned:0\r\n`, true, true, false},
		"the cluster fails":           {"PONG", well, `cluster_state:fail\r\ncluster_slots_assigned:16384\r\n`, true, true, false},
		"loading":                     {"LOADING Redis is loading", `role:master\r\nloading:1\r\n`, formed, true, false, false},
		"no link":                     {"MASTERDOWN Link", `role:slave\r\nmaster_link_status:down\r\nloading:0\r\n`, formed, true, true, false},
		"a replica":                   {"PONG", `role:slave\r\nmaster_link_status:up\r\nloading:0\r\n`, formed, true, true, true},
		"another password":            {"NOAUTH Authentication required.", `NOAUTH Authentication required.`, "NOAUTH", true, true, false},
		"at maxclients":               {"AUTH failed: ERR max number of clients reached", "ERR max number of clients reached", "ERR", true, true, false},
		"at maxclients, cut":          {"Error: Connection reset by peer", "Error: Connection reset by peer", "", true, true, false},
		"an error of a newer version": {"-ERR of the year 2030", "", "", true, true, false},
		"a script runs":               {"BUSY Redis is busy running a script", "BUSY", "BUSY", true, true, false},
		"loading, and no account":     {"AUTH failed: LOADING Redis is loading", "", "", true, false, false},
		"the disk is full":            {"MISCONF Errors writing to the AOF file: No space left on device", well, formed, true, true, true},
		"dead":                        {"Could not connect to Redis", "Could not connect to Redis", "Could not connect to Redis", false, false, false},
		"silent":                      {"", "", "", false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRedisPod(t)
			p.write("bin/redis-cli", answers(c.ping, c.info, c.cluster))
			for script, want := range map[string]bool{"alive.sh": c.alive, "started.sh": c.started, "ready.sh": c.ready} {
				out, err := p.run(script)
				assert.Equal(t, err == nil, want, "%s: %s", script, out)
			}
		})
	}
}

// A server that hangs delays a probe only once: after the first command without an answer, the probe sends no further command.
func TestRedisProbesAskASilentServerOnce(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"alive.sh", "started.sh", "ready.sh"} {
		p := newRedisPod(t)
		p.write("bin/redis-cli", "#!/bin/sh\necho asked >>"+p.root+"/asked\n")
		_, err := p.run(script)
		assert.Assert(t, err != nil, script)
		assert.Equal(t, p.read("asked"), "asked\n", script)
	}
}
