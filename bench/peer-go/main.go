// Command peer-go is an operator for AppDeploy on controller-runtime. The benchmark compares the operator of this project
// with it.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	metrics := flag.String("metrics-bind-address", "127.0.0.1:8080", "Address of /metrics; 0 turns it off.")
	probes := flag.String("health-probe-bind-address", "127.0.0.1:8081", "Address of /healthz and /readyz.")
	concurrency := flag.Int("max-concurrent-reconciles", 1, "How many AppDeploys are reconciled concurrently.")
	flag.Parse() // controller-runtime has registered --kubeconfig.
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err := run(ctrl.SetupSignalHandler(), *metrics, *probes, *concurrency); err != nil {
		ctrl.Log.Error(err, "the operator failed")
		os.Exit(1)
	}
}

func run(ctx context.Context, metrics, probes string, concurrency int) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, addToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.UserAgent = "peer-go"

	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  scheme,
		MapperProvider:          mapper,
		Cache:                   cacheOptions(),
		Metrics:                 metricsserver.Options{BindAddress: metrics},
		HealthProbeBindAddress:  probes,
		GracefulShutdownTimeout: new(20 * time.Second),
	})
	if err != nil {
		return err
	}
	synced, err := cacheCheck(ctx, mgr.GetCache())
	if err != nil {
		return err
	}
	reconciler := &reconciler{Client: mgr.GetClient(), live: mgr.GetAPIReader()}
	err = errors.Join(
		reconciler.register(mgr, concurrency),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", synced),
	)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// children returns an empty object of each kind of child.
func children() []client.Object {
	return []client.Object{&appsv1.Deployment{}, &corev1.Service{}, &networkingv1.Ingress{}}
}

// mapper knows the few kinds that are used, so that the operator starts without discovery.
func mapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	for plural, kind := range map[string]schema.GroupVersionKind{
		"appdeploys":  groupVersion.WithKind("AppDeploy"),
		"deployments": appsv1.SchemeGroupVersion.WithKind("Deployment"),
		"services":    corev1.SchemeGroupVersion.WithKind("Service"),
		"ingresses":   networkingv1.SchemeGroupVersion.WithKind("Ingress"),
	} {
		resource := kind.GroupVersion().WithResource(plural)
		mapper.AddSpecific(kind, resource, resource, meta.RESTScopeNamespace)
	}
	return mapper, nil
}

// cacheOptions limits the caches to the children of AppDeploys, and their objects to the fields that are used. Objects
// are not copied when they are read.
func cacheOptions() cache.Options {
	own := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{labelManagedBy: managedBy})}
	options := cache.Options{
		ByObject:                     map[client.Object]cache.ByObject{},
		DefaultTransform:             stripped,
		DefaultUnsafeDisableDeepCopy: new(true),
	}
	for _, child := range children() {
		options.ByObject[child] = own
	}
	return options
}

// cacheCheck returns a check that passes when all caches are filled.
func cacheCheck(ctx context.Context, caches cache.Cache) (healthz.Checker, error) {
	var informers []cache.Informer
	for _, kind := range append(children(), &AppDeploy{}) {
		informer, err := caches.GetInformer(ctx, kind)
		if err != nil {
			return nil, err
		}
		informers = append(informers, informer)
	}
	return func(*http.Request) error {
		for _, informer := range informers {
			if !informer.HasSynced() {
				return errors.New("the caches are not filled yet")
			}
		}
		return nil
	}, nil
}
