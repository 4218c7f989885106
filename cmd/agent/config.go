// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"sort"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"filippo.io/age"

	"d3os.com/d3os-operator/cmd/agent/internal/seal"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// config holds the flags that commands share: the store, the connection to the server, and the keys. Secrets come from environment
// variables, or from files that environment variables name, and never from arguments.
type config struct {
	*flag.FlagSet
	folder      string
	s3          store.S3Options
	ca          string
	partMiB     int
	address     string
	user        string
	recipients  list
	source      string
	writer      string
	termination string
	// serverConfig is the configuration file of a restoring server.
	serverConfig string
	atEnd        []func() // functions to run at the end of the command
}

func newConfig(command string) *config {
	c := &config{FlagSet: flag.NewFlagSet("agent "+command, flag.ContinueOnError)}
	c.StringVar(&c.folder, "folder", "", "folder to keep backups in, in place of a bucket")
	c.StringVar(&c.s3.Endpoint, "s3-endpoint", "", "URL of the store, such as https://s3.example.com")
	c.StringVar(&c.s3.Bucket, "s3-bucket", "", "bucket to keep backups in")
	c.StringVar(&c.s3.Prefix, "s3-prefix", "", "prefix of all names in the bucket; each database needs a different one")
	c.StringVar(&c.s3.Region, "s3-region", "us-east-1", "region of the bucket")
	c.BoolVar(&c.s3.PathStyle, "s3-path-style", false, "put the bucket into the path of URLs, not into the host name")
	c.StringVar(&c.ca, "s3-ca", "", "file with PEM certificates of authorities to trust for the store, in addition to the system's")
	c.BoolVar(&c.s3.IsRole, "s3-role", false, "use the credentials of the pod's service account instead of a key")
	c.StringVar(&c.s3.Encryption, "s3-sse", "", "encryption that the store applies to objects: AES256 or aws:kms")
	c.StringVar(&c.s3.KMSKey, "s3-sse-key", "", "name of the store's key, for aws:kms")
	c.IntVar(&c.partMiB, "s3-part-mib", 16, "size of the parts of an upload; an upload has at most 10,000 parts, and two parts are in memory")
	c.StringVar(&c.source, "source", "", "id of the data, such as the mark of its volume; backups and archives with the same id belong together")
	c.StringVar(&c.writer, "writer", "", "id of the resource whose data is written, such as its UID: two resources never write to one place")
	c.StringVar(&c.termination, "report", "/dev/termination-log", "file for the result, in addition to the last line of the output")
	return c
}

// server adds the flags of commands that log in to a server.
func (c *config) server() {
	c.StringVar(&c.address, "server", "", "the server's host:port, or the path of its socket")
	c.StringVar(&c.user, "user", "", "account to log in with; its password is in AGENT_PASSWORD or in the file AGENT_PASSWORD_FILE")
}

// configured adds the flags of commands that start the image's server, and returns the options of the server.
func (c *config) configured() *list {
	c.StringVar(&c.serverConfig, "server-config", "", "configuration file of the server; default: the files that the server reads by itself")
	more := &list{}
	c.Var(more, "server-option", "option of the server while it loads the backup; may be given several times")
	return more
}

// writes adds the flags of commands that write encrypted objects.
func (c *config) writes() {
	c.Var(&c.recipients, "recipient", "public key to encrypt to, such as age1...; may be given several times")
}

// secret returns the content of the file that NAME_FILE names, or else the value of the environment variable NAME. It cleans the value with
// contract.CleanSecret. It returns "" if neither variable is set.
func secret(name string) (string, error) {
	raw, from, err := given(name)
	if err != nil || from == "" {
		return "", err
	}
	value, err := contract.CleanSecret(raw)
	if err != nil {
		return "", contract.Errorf(contract.ReasonUsage, "%s is not used: %w", from, err)
	}
	return value, nil
}

// given returns the content of the file that NAME_FILE names, or else the value of the environment variable NAME. from
// describes the source of the value for messages; "" if neither variable is set.
func given(name string) (raw []byte, from string, err error) {
	if file := os.Getenv(name + contract.InFile); file != "" {
		if raw, err = os.ReadFile(file); err != nil {
			return nil, "", contract.Errorf(contract.ReasonUsage, "read the file that %s_FILE names: %w", name, err)
		}
		return raw, "the secret in " + file, nil
	}
	if value, ok := os.LookupEnv(name); ok {
		return []byte(value), "the variable " + name, nil
	}
	return nil, "", nil
}

// open opens the store.
func (c *config) open(ctx context.Context) (store.Store, error) {
	if (c.folder == "") == (c.s3.Bucket == "") {
		return nil, contract.Errorf(contract.ReasonUsage, "give either --folder or --s3-bucket")
	}
	if c.folder != "" {
		return store.NewFolder(c.folder)
	}
	var err error
	for name, value := range map[string]*string{"AWS_ACCESS_KEY_ID": &c.s3.AccessKey, "AWS_SECRET_ACCESS_KEY": &c.s3.SecretKey, "AWS_SESSION_TOKEN": &c.s3.Token} {
		if *value, err = secret(name); err != nil && (name != "AWS_SESSION_TOKEN" || !errors.Is(err, fs.ErrNotExist)) { // most access keys have no session token
			return nil, err
		}
	}
	c.s3.STS = os.Getenv("AWS_ENDPOINT_URL_STS")
	if c.ca != "" {
		if c.s3.CA, err = os.ReadFile(c.ca); err != nil {
			return nil, contract.Errorf(contract.ReasonUsage, "read the certificates of the store: %w", err)
		}
	}
	if c.partMiB < 5 || c.partMiB > 64 {
		return nil, contract.Errorf(contract.ReasonUsage, "--s3-part-mib must be 5 to 64")
	}
	c.s3.PartSize = c.partMiB << 20
	return store.NewS3(ctx, c.s3)
}

func (c *config) login() (server.Options, error) {
	password, err := secret(contract.EnvPassword)
	if err == nil && (c.address == "" || c.user == "") {
		err = contract.Errorf(contract.ReasonUsage, "--server and --user are required")
	}
	return server.Options{Address: c.address, User: c.user, Password: password}, err
}

func (c *config) publicKeys() ([]age.Recipient, error) { return seal.ParseRecipients(c.recipients) }

// privateKeys reads AGENT_IDENTITIES. Backups that are not encrypted need no key, so a missing file is not a failure.
func privateKeys() ([]age.Identity, error) {
	text, _, err := given(contract.EnvIdentities) // not cleaned, because it has several lines
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || len(text) == 0 {
		return nil, err
	}
	return seal.ParseIdentities(string(text))
}

// command parses the flags, calls do, and prints the result as the last line of the output. It returns the exit code.
func (c *config) command(arguments []string, do func(ctx context.Context, result *contract.Result) error) int {
	result := &contract.Result{Command: strings.TrimPrefix(c.Name(), "agent ")}
	begin := time.Now()
	err := c.Parse(arguments)
	if err == nil && c.NArg() > 0 {
		err = fmt.Errorf("unknown argument %q", c.Arg(0))
	}
	if err != nil {
		err = contract.Errorf(contract.ReasonUsage, "%w", err)
	} else {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		err = do(ctx, result)
		for _, end := range c.atEnd {
			end()
		}
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("ended by a signal: %w", err)
		}
	}
	result.Seconds = time.Since(begin).Seconds()
	if result.OK = err == nil; !result.OK {
		result.Reason, result.Message = contract.ReasonOf(err), err.Error()
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	text, encodeErr := json.Marshal(result)
	if encodeErr != nil {
		fmt.Fprintln(os.Stderr, "error:", encodeErr)
		return exitFailed
	}
	fmt.Println(string(text))
	c.report(result)
	return contract.Exits[result.Reason] // 0 if Reason is empty
}

// maxTermination is the maximum size of a termination message. Kubernetes truncates a longer one.
const maxTermination = 4096

// maxGTID is the maximum length of a set of GTIDs in the termination message. The manifest contains the whole set.
const maxGTID = 1024

// maxMessage is the maximum number of bytes of the message in the JSON of the termination message.
const maxMessage = 2200

// minWarning is the number of bytes of JSON to which each warning may be cut. If even such warnings do not fit, the last ones are omitted.
const minWarning = 200

// report writes the result as the termination message.
func (c *config) report(result *contract.Result) {
	// Outside of a container there is no such file. Then only the last line of the output contains the result.
	if _, err := os.Stat(c.termination); err != nil && c.termination == "/dev/termination-log" {
		return
	}
	if err := writeTermination(c.termination, shorten(result)); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
}

// shorten returns a copy of the result that fits into a termination message. It omits lists, and cuts long texts. The warnings get the bytes
// that the other fields leave.
func shorten(result *contract.Result) contract.Result {
	short := *result
	short.Backups, short.Timelines, short.Removed, short.Warnings = nil, nil, nil, nil
	if at := short.Position; at != nil && len(at.GTID) > maxGTID { // a truncated set would be another set of GTIDs, so the message has none
		short.Position = &contract.Position{File: at.File, Offset: at.Offset}
	}
	for limit := 700; ; limit /= 2 {
		if short.Message = cut(result.Message, limit); sizeOf(short.Message) <= maxMessage {
			break
		}
	}
	short.Warnings = shortenWarnings(result.Warnings, maxTermination-sizeOf(short)-len(`,"warnings":[]`))
	return short
}

// shortenWarnings returns warnings whose JSON has at most room bytes. Each warning gets an equal share, and short warnings leave the rest of
// their shares to the long ones. If warnings are omitted, the last warning states their number.
func shortenWarnings(warnings []string, room int) []string {
	room++ // each warning counts with a comma, and the first has none
	sizes := make([]int, len(warnings))
	for i, warning := range warnings {
		sizes[i] = sizeOf(warning) + len(",")
	}
	kept, last := len(warnings), []string(nil)
	fits := func(share int) bool {
		sum := 0
		for _, size := range sizes[:kept] {
			sum += min(size, share)
		}
		for _, text := range last {
			sum += sizeOf(text) + len(",")
		}
		return sum <= room
	}
	for kept > 0 && !fits(minWarning) {
		kept--
		last = []string{fmt.Sprintf("more warnings (%d): the last line of the log has all of them", len(warnings)-kept)}
	}
	share := sort.Search(maxTermination, func(share int) bool { return !fits(share + 1) })
	var short []string
	for _, warning := range warnings[:kept] {
		short = append(short, cutTo(warning, share-len(",")))
	}
	return append(short, last...)
}

// sizeOf returns the number of bytes of a value in JSON, in which a character may take six bytes.
func sizeOf(value any) int {
	text, _ := json.Marshal(value) // writeTermination reports an error
	return len(text)
}

// cutTo cuts a text to a number of bytes of JSON.
func cutTo(text string, size int) string {
	if sizeOf(text) <= size {
		return text
	}
	return cut(text, sort.Search(utf8.RuneCountInString(text), func(limit int) bool { return sizeOf(cut(text, limit+1)) > size }))
}

// cut removes the middle of a long text: the text begins with the attempted action and ends with the cause.
func cut(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit/3]) + "…" + string(runes[len(runes)-limit+limit/3:])
	}
	return text
}

// progress prints the progress of a command as a line of JSON.
func progress(p contract.Progress) {
	if text, err := json.Marshal(p); err == nil {
		fmt.Println(string(text))
	}
}
