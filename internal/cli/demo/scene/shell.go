package scene

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
)

// Line is a command line.
type Line struct {
	// User types it: one of the tutorial's users, who works in the namespace of a team; "" is
	// the administrator.
	User string
	// Argv begins with the name by which the program is called: mlbatch, or one of Slurm's.
	Argv []string
	// Into is a file in the working directory that gets what is printed; "" is Out.
	Into string
}

// Shell runs command lines in a working directory.
type Shell interface {
	// Run runs one, with what it prints on out, and returns its exit code.
	Run(ctx context.Context, line Line, out, errs io.Writer) (code int, err error)
	// Write makes a file in the working directory.
	Write(name, text string) error
}

// teams are the namespaces in which users work.
func teams() map[string]string {
	return map[string]string{"alice": "blue", "bob": "red", "carol": "green"}
}

// Program is a Shell that runs a program with a cluster's data directory.
type Program struct {
	// Path is the program, DataDir the cluster's directory, Dir the working directory.
	Path, DataDir, Dir string
}

// Write implements Shell.
func (p Program) Write(name, text string) error {
	if err := os.WriteFile(filepath.Join(p.Dir, name), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Run implements Shell.
func (p Program) Run(ctx context.Context, line Line, out, errs io.Writer) (int, error) {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "KUBECONFIG=") || strings.HasPrefix(v, "MLBATCH_DATA_DIR=")
	})
	env = append(env, "MLBATCH_DATA_DIR="+p.DataDir)
	if line.User != "" {
		file, err := p.kubeconfig(line.User)
		if err != nil {
			return 0, err
		}
		env = append(env, "KUBECONFIG="+file)
	}
	if line.Into != "" {
		f, err := os.Create(filepath.Join(p.Dir, line.Into))
		if err != nil {
			return 0, fmt.Errorf("write %s: %w", line.Into, err)
		}
		defer f.Close()
		out = f
	}
	cmd := exec.CommandContext(ctx, p.Path, line.Argv[1:]...) //nolint:gosec // itself, with arguments of our own
	cmd.Args[0], cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = line.Argv[0], p.Dir, env, out, errs
	err := cmd.Run()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && ctx.Err() == nil {
		return failed.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", line.Argv[0], cmp.Or(context.Cause(ctx), err))
	}
	return 0, nil
}

// kubeconfig makes the file with which a user reaches the cluster.
func (p Program) kubeconfig(user string) (string, error) {
	file := filepath.Join(p.Dir, user+".kubeconfig")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	cfg, err := clientcmd.LoadFromFile(filepath.Join(p.DataDir, "kubeconfig"))
	if err != nil {
		return "", fmt.Errorf("read the cluster's kubeconfig: %w", err)
	}
	for _, c := range cfg.Contexts {
		c.Namespace = teams()[user]
	}
	for _, who := range cfg.AuthInfos {
		who.Impersonate = user
	}
	if err := clientcmd.WriteToFile(*cfg, file); err != nil {
		return "", fmt.Errorf("write the kubeconfig of %s: %w", user, err)
	}
	return file, nil
}
