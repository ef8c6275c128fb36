package rig

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Request is what somebody asked the API server for, and what came of it.
type Request struct {
	// User is who asked. As is whom they acted for (impersonation), "" for themselves.
	User, As string
	Verb     string
	// Group, Resource (with its subresource behind a slash), Namespace and Name say about
	// what. Path is set for what is no resource.
	Group, Resource, Namespace, Name string
	Path                             string
	// Code is the status of the answer, Reason what it said of a refusal.
	Code   int
	Reason string
	// Forbidden: roles did not let them. A refusal of an admission is none.
	Forbidden bool
}

// Who is in whose name it was asked.
func (r Request) Who() string {
	if r.As != "" {
		return r.As
	}
	return r.User
}

// event is the part of an audit.k8s.io/v1 Event that is looked at.
type event struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ImpersonatedUser *struct {
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code   int    `json:"code"`
		Reason string `json:"reason"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
}

// Asked calls do with each request so far of a cluster of StartAudited, the same one of a
// watch maybe twice. The API server may have been killed while it wrote: a line that is no
// event is left out.
func (c *Cluster) Asked(do func(Request)) error {
	if c.auditLog == "" {
		return errors.New("the cluster was started without an audit log")
	}
	// When the file is large it gets a date into its name, and another begins.
	files, err := filepath.Glob(strings.TrimSuffix(c.auditLog, ".log") + "*.log")
	if err != nil {
		return fmt.Errorf("find audit logs: %w", err)
	}
	slices.Sort(files)
	for _, file := range files {
		if err := readAudit(file, do); err != nil {
			return err
		}
	}
	return nil
}

func readAudit(file string, do func(Request)) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 1<<20), 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Verb != "" {
			do(e.request())
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	return nil
}

func (e event) request() Request {
	r := Request{
		User:      e.User.Username,
		Verb:      e.Verb,
		Forbidden: e.Annotations["authorization.k8s.io/decision"] == "forbid",
	}
	if e.ImpersonatedUser != nil {
		r.As = e.ImpersonatedUser.Username
	}
	if o := e.ObjectRef; o != nil {
		r.Group, r.Resource, r.Namespace, r.Name = o.APIGroup, o.Resource, o.Namespace, o.Name
		if o.Subresource != "" {
			r.Resource += "/" + o.Subresource
		}
	} else {
		r.Path, _, _ = strings.Cut(e.RequestURI, "?")
	}
	if s := e.ResponseStatus; s != nil {
		r.Code, r.Reason = s.Code, s.Reason
	}
	return r
}
