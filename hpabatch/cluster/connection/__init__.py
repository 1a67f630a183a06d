"""Connection to an API server: kubeconfig, credentials, requests, errors, discovery."""
