// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/render"
)

// mongoDBSpec is the spec of a MongoDB (mongodb.com/v1, MongoDB's Community operator before 0.6) and of its successor MongoDBCommunity.
type mongoDBSpec struct {
	Members     int32               `json:"members"`
	Type        string              `json:"type"`
	Version     string              `json:"version"`
	Security    mongoDBSecurity     `json:"security"`
	Users       []mongoDBUser       `json:"users"`
	StatefulSet *mongoDBStatefulSet `json:"statefulSet"`

	FeatureCompatibilityVersion      string         `json:"featureCompatibilityVersion"`
	ReplicaSetHorizons               []any          `json:"replicaSetHorizons"`
	Arbiters                         int32          `json:"arbiters"`
	Agent                            map[string]any `json:"agent"`
	AutomationConfig                 map[string]any `json:"automationConfig"`
	Prometheus                       map[string]any `json:"prometheus"`
	AdditionalMongodConfig           map[string]any `json:"additionalMongodConfig"`
	AdditionalConnectionStringConfig map[string]any `json:"additionalConnectionStringConfig"`
}

type mongoDBSecurity struct {
	Authentication struct {
		Modes                  []string       `json:"modes"`
		IgnoreUnknownUsers     *bool          `json:"ignoreUnknownUsers"`
		AgentMode              string         `json:"agentMode"`
		AgentCertificateSecret map[string]any `json:"agentCertificateSecretRef"`
	} `json:"authentication"`
	TLS   map[string]any `json:"tls"`
	Roles []any          `json:"roles"`
}

type mongoDBUser struct {
	Name              string `json:"name"`
	DB                string `json:"db"`
	PasswordSecretRef struct {
		Name string `json:"name"`
		Key  string `json:"key"`
	} `json:"passwordSecretRef"`
	Roles                            []any          `json:"roles"`
	ScramCredentialsSecretName       string         `json:"scramCredentialsSecretName"`
	ConnectionStringSecretName       string         `json:"connectionStringSecretName"`
	ConnectionStringSecretNamespace  string         `json:"connectionStringSecretNamespace"`
	AdditionalConnectionStringConfig map[string]any `json:"additionalConnectionStringConfig"`
}

type mongoDBStatefulSet struct {
	Metadata map[string]any `json:"metadata"`
	Spec     map[string]any `json:"spec"`
}

// longestMongoDB is the maximum length of spec.mongodb.name.
const longestMongoDB = 44

var (
	mongoDBVersion  = regexp.MustCompile(`^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,6}$`)
	mongoDBDatabase = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,36}[a-z0-9])?$`)
)

// mongoDB converts a replica set of MongoDB.
func mongoDB(s *source, _ Options) (map[string]any, error) {
	spec := mongoDBSpec{}
	if err := render.Decode("spec", s.Object["spec"], &spec); err != nil {
		return nil, fmt.Errorf("%s: %w", s.id(), err)
	}
	switch {
	case len(s.GetName()) > longestMongoDB:
		return nil, s.mistake("metadata.name", "must have at most %d characters: rename the resource in the file", longestMongoDB)
	case spec.Type != "" && spec.Type != "ReplicaSet":
		return nil, s.mistake("spec.type", "'%s' must be ReplicaSet", spec.Type)
	case spec.Members < 1 || spec.Members > 7:
		return nil, s.mistake("spec.members", "'%d' must be a number from 1 to 7", spec.Members)
	case !mongoDBVersion.MatchString(spec.Version):
		return nil, s.mistake("spec.version", "'%s' must have three numbers", spec.Version)
	}
	entry := map[string]any{"name": s.GetName(), "replicas": int64(spec.Members), "version": spec.Version}
	if len(spec.AdditionalMongodConfig) > 0 {
		entry["config"] = spec.AdditionalMongodConfig
	}
	s.mongoDBUsers(spec.Users, entry)
	s.mongoDBRest(&spec)
	if spec.StatefulSet != nil {
		return entry, s.mongoDBPods(spec.StatefulSet, entry)
	}
	return entry, nil
}

// mongoDBUsers converts the first account to the services' account.
func (s *source) mongoDBUsers(users []mongoDBUser, entry map[string]any) {
	for i := range users {
		u, path := &users[i], fmt.Sprintf("spec.users[%d]", i)
		if i > 0 {
			s.note(path, "a DataService has one account: %s stays in the data as it is", u.Name)
			continue
		}
		if u.Name != values.MongoDBAccount {
			s.note(path+".name", "the account of the services is %s: %s stays in the data as it is", values.MongoDBAccount, u.Name)
		}
		if len(u.Roles) > 0 {
			s.note(path+".roles", "the account of the services may read and write its database, and administer its collections and indexes")
		}
		if slices.Contains([]string{"admin", "local", "config"}, u.DB) || !mongoDBDatabase.MatchString(u.DB) {
			s.note(path+".db", "'%s' cannot be the database of the services: set mongodb.database, unless the services use database %s", u.DB, values.MongoDBAccount)
		} else {
			entry["database"] = u.DB
		}
		switch ref := u.PasswordSecretRef; {
		case ref.Name != "" && (ref.Key == "" || ref.Key == "password"):
			entry["credentialsSecret"] = ref.Name
		case ref.Name != "":
			s.note(path+".passwordSecretRef", "the key must be password, but is %s: a password is generated unless mongodb.credentialsSecret is set", ref.Key)
		}
		if u.ConnectionStringSecretName != "" || u.ConnectionStringSecretNamespace != "" || len(u.AdditionalConnectionStringConfig) > 0 {
			s.note(path+".connectionStringSecretName", "services get the connection string as MongoDB's operator writes it by default")
		}
	}
}

// mongoDBRest records the other fields without a counterpart.
func (s *source) mongoDBRest(spec *mongoDBSpec) {
	const own = "keep the MongoDBCommunity, and set mongodb.kind to ThirdParty"
	auth := &spec.Security.Authentication
	enabled, _ := spec.Security.TLS["enabled"].(bool)
	for _, field := range []struct {
		path, reason string
		isGiven      bool
	}{
		{"spec.arbiters", "a DataService has no arbiters: all members have the data", spec.Arbiters > 0},
		{"spec.featureCompatibilityVersion", "the server uses the value of its version", spec.FeatureCompatibilityVersion != ""},
		{"spec.security.tls", "connections are not encrypted: " + own, enabled},
		{"spec.security.roles", "there are no custom roles: " + own, len(spec.Security.Roles) > 0},
		{"spec.security.authentication.modes", "it is SCRAM: " + own, slices.ContainsFunc(auth.Modes, func(m string) bool { return m == "X509" }) || auth.AgentMode == "X509" || len(auth.AgentCertificateSecret) > 0},
		{"spec.security.authentication.ignoreUnknownUsers", "its value is true: MongoDB's operator does not change accounts that the resource does not name", auth.IgnoreUnknownUsers != nil && !*auth.IgnoreUnknownUsers},
		{"spec.replicaSetHorizons", own, len(spec.ReplicaSetHorizons) > 0},
		{"spec.agent", "the agent's settings are those of MongoDB's operator", len(spec.Agent) > 0},
		{"spec.automationConfig", own, len(spec.AutomationConfig) > 0},
		{"spec.prometheus", own, len(spec.Prometheus) > 0},
		{"spec.additionalConnectionStringConfig", "services get the connection string as MongoDB's operator writes it by default", len(spec.AdditionalConnectionStringConfig) > 0},
	} {
		if field.isGiven {
			s.note(field.path, "%s", field.reason)
		}
	}
}

// mongoDBPods converts the changes of the StatefulSet: of the pod template, and of the data volume's size.
func (s *source) mongoDBPods(set *mongoDBStatefulSet, entry map[string]any) error {
	if len(set.Metadata) > 0 {
		s.note("spec.statefulSet.metadata", "labels and annotations of the StatefulSet are those of MongoDB's operator")
	}
	for _, name := range slices.Sorted(maps.Keys(set.Spec)) {
		switch name {
		case "template":
			if template, isObject := set.Spec[name].(map[string]any); isObject && len(template) > 0 {
				entry["podTemplate"] = template
			}
		case "volumeClaimTemplates":
			var claims []corev1.PersistentVolumeClaim
			if err := render.Decode("spec.statefulSet.spec.volumeClaimTemplates", set.Spec[name], &claims); err != nil {
				return fmt.Errorf("%s: %w", s.id(), err)
			}
			s.mongoDBVolumes(claims, entry)
		default:
			s.note("spec.statefulSet.spec."+name, "a DataService cannot change this field of the StatefulSet that MongoDB's operator creates")
		}
	}
	return nil
}

func (s *source) mongoDBVolumes(claims []corev1.PersistentVolumeClaim, entry map[string]any) {
	for i := range claims {
		claim := &claims[i]
		if claim.Name != "data-volume" {
			s.note(fmt.Sprintf("spec.statefulSet.spec.volumeClaimTemplates[%d]", i), "a DataService has no field for the volume %s: a volume for logs has 2G", claim.Name)
			continue
		}
		storage := map[string]any{}
		if size, isGiven := claim.Spec.Resources.Requests[corev1.ResourceStorage]; isGiven {
			storage["size"] = size.String()
		}
		if class := claim.Spec.StorageClassName; class != nil && *class != "" {
			storage["storageClassName"] = *class
		}
		if len(storage) > 0 {
			entry["storage"] = storage
		}
	}
}
