"""Connection to an API server: kubeconfig, logins, requests, errors, discovery."""
