// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/render"
)

// The keys of the Secrets.
const (
	keyRootPassword    = "root-password"
	keyUsername        = "username"
	keyPassword        = "password"
	keyJWTSecret       = "jwt-secret"
	keyGatewayUsername = "gateway-username"
	keyGatewayPassword = "gateway-password"
	keyChecksum        = "checksum-key"

	serviceAccount = "dataservice" // database account of the services
	gatewayAdmin   = "admin"
)

// Lookup returns the live object (Secret or PersistentVolumeClaim) with a kind and name if the object belongs to this DataService;
// otherwise nil.
type Lookup func(kind, name string) (*unstructured.Unstructured, error)

// LostError reports that data exists but its password is lost: the API server has no Secret with the password. A new password would not
// open the data.
type LostError struct{ Secret, Claim string }

func (e *LostError) Error() string {
	return fmt.Sprintf("mysql: PersistentVolumeClaim %s holds data, but Secret %s with its passwords is gone: restore it from a backup, or create it with the keys %s, %s and %s and the passwords of the database",
		e.Claim, e.Secret, keyRootPassword, keyUsername, keyPassword)
}

// SecretsPlan holds the Secrets of a DataService, and their names for the charts.
type SecretsPlan struct {
	Secrets     []*unstructured.Unstructured
	Credentials values.Credentials
	// MongoDBPassword is the password of the services' account in MongoDB; "" while the user's Secret with the password does not exist.
	MongoDBPassword string
	// DigestKey is the secret key with which digests of users' Secrets are computed; "" if no digest is needed. Without
	// a key, a digest would help to guess a weak password.
	DigestKey string
}

type secretData map[string]string

// Plan returns the planned Secrets of a DataService. If users is nil, it does not read users' Secrets.
func (k *Keeper) Plan(ds *dsv1.DataService, graph *component.Graph, lookup Lookup, users *Users) (*SecretsPlan, error) {
	p := &planner{keeper: k, ds: ds, lookup: lookup, others: users, plan: &SecretsPlan{}}
	if err := p.platform(graph); err != nil {
		return nil, err
	}
	if c := graph.Get(component.MySQL); c != nil {
		if err := p.mysql(c); err != nil {
			return nil, err
		}
	}
	if c := graph.Get(component.Redis); c != nil && c.Redis != nil {
		if err := p.redis(c); err != nil {
			return nil, err
		}
	}
	if c := graph.Get(component.MongoDB); c != nil && c.MongoDB != nil && c.Kind != component.ThirdParty {
		if err := p.mongodb(c); err != nil {
			return nil, err
		}
	}
	return p.plan, nil
}

// planner holds the state of one call of Plan.
type planner struct {
	keeper *Keeper
	ds     *dsv1.DataService
	lookup Lookup
	others *Users
	plan   *SecretsPlan
	jwt    string
}

func (p *planner) platform(graph *component.Graph) error {
	shared := false
	for i := range graph.Components {
		shared = shared || graph.Components[i].HasProductDefaults
	}
	if !shared && !p.ds.Spec.Rollout.RestartOnChange {
		return nil
	}
	name := p.ds.Name + "-" + component.Platform
	d, err := p.fill(name, secretData{keyGatewayUsername: gatewayAdmin}, keyJWTSecret, keyGatewayPassword)
	if err != nil {
		return err
	}
	if p.plan.DigestKey = d[keyJWTSecret]; shared {
		p.jwt, p.plan.Credentials.PlatformSecret = d[keyJWTSecret], name
	}
	return p.add(name, component.Platform, d, false)
}

func (p *planner) mysql(c *component.Component) error {
	if c.Kind == component.ThirdParty {
		return p.thirdParty(c)
	}
	keep := c.MySQL.Storage.Retention != dsv1.RetentionDelete
	if err := p.users(c, keep); err != nil {
		return err
	}
	if secret := c.MySQL.CredentialsSecret; secret != "" { // the user's Secret
		var err error
		p.plan.Credentials.MySQLSecret, err = p.clean(c, secret, keep, keyRootPassword, keyUsername, keyPassword)
		return err
	}
	name := c.ObjectName + "-credentials"
	if err := p.checkLost(name, c); err != nil {
		return err
	}
	d, err := p.fill(name, secretData{keyUsername: serviceAccount}, keyRootPassword, keyPassword)
	if err != nil {
		return err
	}
	p.plan.Credentials.MySQLSecret = name
	return p.add(name, string(c.Name), d, keep)
}

// users plans the passwords of the database's additional accounts: those in the spec, and those for backups.
func (p *planner) users(c *component.Component, keep bool) error {
	var names []string
	for _, user := range c.MySQL.Users {
		names = append(names, user.Name)
	}
	if b := c.MySQL.Backup; b != nil && c.Kind != component.Managed { // members have separate accounts for backups
		names = append(names, values.BackupAccount)
		if b.PointInTime != nil {
			names = append(names, values.ArchiveAccount)
		}
	}
	if len(names) == 0 {
		return nil
	}
	name := c.ObjectName + "-users"
	d, err := p.fill(name, secretData{}, names...)
	if err != nil {
		return err
	}
	p.plan.Credentials.MySQLUsersSecret = name
	return p.add(name, string(c.Name), d, keep)
}

// checkLost refuses to generate a password for data that was created with another password.
func (p *planner) checkLost(secret string, c *component.Component) error {
	if c.Kind == component.DaemonSet || p.keeper.recall(p.ds, secret) != nil {
		return nil
	}
	live, err := p.lookup("Secret", secret)
	if live != nil || err != nil {
		return err
	}
	claim, err := p.lookup("PersistentVolumeClaim", "data-"+c.ObjectName+"-0")
	if err != nil || claim == nil || claim.GetDeletionTimestamp() != nil {
		return err
	}
	lost := &LostError{Secret: secret, Claim: claim.GetName()}
	if p.others == nil {
		return lost
	}
	if live, err = object.UnseenSecret(OwnerOf(p.ds), p.others.Live, secret, lost); err == nil {
		p.keeper.remember(p.ds, secret, decode(live))
	}
	return err
}

// thirdParty sets the name of the Secret with the account of a database outside of the cluster: the user's Secret, or a
// Secret with the account from the spec.
func (p *planner) thirdParty(c *component.Component) error {
	var err error
	if ref := c.ThirdParty.SecretRef; ref != nil && ref.Name != "" {
		p.plan.Credentials.MySQLSecret, err = p.clean(c, ref.Name, false, keyUsername, keyPassword)
		return err
	}
	given := secretData{keyUsername: c.ThirdParty.Username, keyPassword: c.ThirdParty.Password}
	p.plan.Credentials.MySQLSecret, p.plan.Credentials.MySQLChecksum, err = p.given(c, given)
	return err
}

// redis sets the name of the Secret with the password of Redis. If Redis is a RedisCluster, the controller of that kind
// creates the Secret.
func (p *planner) redis(c *component.Component) error {
	found := &p.plan.Credentials
	if c.Kind != component.ThirdParty {
		found.RedisSecret = c.ObjectName + "-credentials"
		if secret := c.Redis.CredentialsSecret; secret != "" {
			isCut, err := p.isCut(secret, keyPassword)
			if found.RedisSecret = secret; isCut {
				found.RedisSecret = c.ObjectName + "-password" // copy that the controller of RedisClusters makes
			}
			return err
		}
		return nil
	}
	tp := c.ThirdParty
	if tp.SecretRef != nil && tp.SecretRef.Name != "" {
		var err error
		found.RedisHasUser = true
		found.RedisSecret, err = p.clean(c, tp.SecretRef.Name, false, "?"+keyUsername, keyPassword)
		return err
	}
	if tp.Password == "" {
		return nil
	}
	given := secretData{keyPassword: tp.Password}
	if tp.Username != "" {
		given[keyUsername], found.RedisHasUser = tp.Username, true
	}
	var err error
	found.RedisSecret, found.RedisChecksum, err = p.given(c, given)
	return err
}

// mongodb plans the password of the services' account in MongoDB. If the password is lost, it is generated again
// without checkLost: MongoDB's operator then sets the new password in the database.
func (p *planner) mongodb(c *component.Component) (err error) {
	if secret := c.MongoDB.CredentialsSecret; secret != "" {
		if p.others != nil {
			given, _, err := p.keeper.users.Read(p.ds.Namespace, secret, p.others.Live, keyPassword)
			if given == nil && err == nil { // the Secret does not exist
				p.plan.Credentials.MongoDBSecret = secret
				return nil
			}
			p.plan.MongoDBPassword = given[keyPassword]
		}
		p.plan.Credentials.MongoDBSecret, err = p.clean(c, secret, true, keyPassword)
		return err
	}
	name := c.ObjectName + "-credentials"
	d, err := p.fill(name, secretData{keyUsername: values.MongoDBAccount}, keyPassword)
	if err != nil {
		return err
	}
	p.plan.Credentials.MongoDBSecret, p.plan.MongoDBPassword = name, d[keyPassword]
	return p.add(name, string(c.Name), d, true)
}

// given stores an account from the spec in a Secret, and returns the Secret's name and a checksum of the account.
func (p *planner) given(c *component.Component, d secretData) (secret, checksum string, err error) {
	secret = c.ObjectName + "-third-party"
	for key, value := range d {
		if value == "" {
			continue
		}
		if d[key], err = contract.CleanSecret([]byte(value)); err != nil {
			return "", "", render.FieldError(c.Path+".thirdParty."+key, "%s", err)
		}
	}
	username, secretText := d[keyUsername], d[keyPassword]
	// The checksum depends on a secret key. Without a key, the checksum in the pods' annotation would help to guess a
	// weak password. The key is the secret of the product's services. If no such service is declared, the key is stored in
	// this Secret.
	key := p.jwt
	if key == "" {
		if d, err = p.fill(secret, d, keyChecksum); err != nil {
			return "", "", err
		}
		key = d[keyChecksum]
	}
	mac := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(mac, "%d:%s%s", len(username), username, secretText)
	return secret, hex.EncodeToString(mac.Sum(nil)[:12]), p.add(secret, string(c.Name), d, false)
}

// fill returns the fixed values, and a value for each of the keys. It takes each of these values from the live Secret,
// or else from the cache. If both lack the value, it generates a new one.
func (p *planner) fill(name string, fixed secretData, keys ...string) (secretData, error) {
	live, err := p.lookup("Secret", name)
	if err != nil {
		return nil, err
	}
	current := decode(live)
	remembered := p.keeper.recall(p.ds, name)
	generated := secretData{}
	for _, key := range keys {
		switch {
		case current[key] != "":
			generated[key] = current[key]
		case remembered[key] != "":
			generated[key] = remembered[key]
		default:
			if generated[key], err = p.keeper.generate(); err != nil {
				return nil, fmt.Errorf("generate %s of Secret %s/%s: %w", key, p.ds.Namespace, name, err)
			}
		}
	}
	p.keeper.remember(p.ds, name, generated)
	filled := maps.Clone(generated)
	maps.Copy(filled, fixed)
	return filled, nil
}

func decode(secret *unstructured.Unstructured) secretData {
	decoded := secretData{}
	if secret == nil {
		return decoded
	}
	encoded, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	for key, value := range encoded {
		raw, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			continue
		}
		text, err := contract.CleanSecret(raw)
		if err != nil {
			text = string(raw) // a new value would not open the data
		}
		decoded[key] = text
	}
	return decoded
}

func (p *planner) add(name, componentName string, d secretData, keep bool) error {
	encoded := make(map[string]any, len(d))
	for key, value := range d {
		encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": encoded,
	}}
	secret.SetName(name)
	secret.SetNamespace(p.ds.Namespace)
	secret.SetLabels(map[string]string{
		object.LabelInstance:  p.ds.Name,
		object.LabelComponent: componentName,
		object.LabelManagedBy: object.ManagedBy,
		object.LabelPartOf:    "dataservice",
	})
	if keep {
		secret.SetAnnotations(map[string]string{object.AnnotationPolicy: object.PolicyKeep})
	}
	p.plan.Secrets = append(p.plan.Secrets, secret)
	_, err := object.Finish(secret, OwnerOf(p.ds))
	return err
}
