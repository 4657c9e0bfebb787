package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// errNotControlled means that the name of a child is used by an object with another controller, or with none.
var errNotControlled = errors.New("exists and is not controlled by this AppDeploy")

// reconciler maintains a Deployment, a Service and an Ingress for each AppDeploy.
type reconciler struct {
	client.Client               // Reads from the caches. Objects that it returns share memory with them.
	live          client.Reader // Reads from the API server.
	written       written
}

// register adds the controller to the manager.
func (r *reconciler) register(mgr ctrl.Manager, concurrency int) error {
	toOwner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &AppDeploy{},
		handler.OnlyControllerOwner())
	toItself := handler.Funcs{CreateFunc: enqueueCreated, UpdateFunc: enqueueUpdated}
	controller := ctrl.NewControllerManagedBy(mgr).
		Named("appdeploy").
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Watches(&AppDeploy{}, toItself, builder.WithPredicates(r.observe(false)))
	for _, child := range children() {
		controller.Watches(child, toOwner, builder.WithPredicates(r.observe(true)))
	}
	return controller.Complete(r)
}

// observe returns a predicate that compares each event with the written objects. Events of children are dropped if they
// are writes of this operator, or in the initial list: each AppDeploy is enqueued for itself at the start.
func (r *reconciler) observe(isChild bool) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			isOwn := r.written.isOwn(e.Object)
			return !isChild || !isOwn && !e.IsInInitialList
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			isOwn := r.written.isOwn(e.ObjectNew)
			return !isChild || !isOwn
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			r.written.remove(e.Object)
			return true
		},
	}
}

// enqueueCreated enqueues an AppDeploy that was created or listed at the start. Those that were already reconciled in an
// earlier run of the operator have a low priority.
func enqueueCreated(_ context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	app := e.Object.(*AppDeploy)
	options := priorityqueue.AddOpts{}
	if app.Status.ObservedGeneration != app.Generation {
		options.Priority = new(0)
	}
	queue.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(options, requestFor(app))
}

// enqueueUpdated enqueues an AppDeploy whose spec was changed. Its other updates are mostly writes of this operator.
func enqueueUpdated(_ context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() {
		queue.Add(requestFor(e.ObjectNew))
	}
}

func requestFor(object client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
}

// Reconcile updates the children and the status of one AppDeploy. It sends no request if nothing differs.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	app := &AppDeploy{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
	written := r.written.get(app)
	if err := r.Get(ctx, request.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !app.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // The garbage collector deletes the children.
	}
	if written.isNewer(app) {
		app.Status = written.object.(*AppDeploy).Status
	}
	var result ctrl.Result
	deployment, err := ensure(ctx, r, app, desireDeployment, &result)
	if err == nil {
		_, err = ensure(ctx, r, app, desireService, &result)
	}
	if err == nil {
		_, err = ensure(ctx, r, app, desireIngress, &result)
	}
	return result, errors.Join(err, r.writeStatus(ctx, app, deployment, err))
}

// object is a pointer to a child of type T.
type object[T any] interface {
	*T
	client.Object
}

// ensure creates a child, or patches the fields that differ from the desired state. It returns the child.
func ensure[T any, P object[T]](
	ctx context.Context, r *reconciler, app *AppDeploy, desire func(*AppDeploy, P), result *ctrl.Result,
) (P, error) {
	child, err := current[T, P](ctx, r, app, result)
	if apierrors.IsNotFound(err) {
		if child, err = create(ctx, r, app, desire); !apierrors.IsAlreadyExists(err) {
			return child, wrap(child, err)
		}
		// The object does not have the label that the cache selects.
		child = new(T)
		if err = r.live.Get(ctx, client.ObjectKeyFromObject(app), child); err == nil {
			_, err = stripped(child)
		}
	}
	if err == nil && !metav1.IsControlledBy(child, app) {
		err = errNotControlled
	}
	if err != nil {
		return child, wrap(child, err)
	}
	desired := P(new(*child))
	desired.SetLabels(desiredLabels(app))
	desire(app, desired)
	if equality.Semantic.DeepEqual(child, desired) {
		return child, nil
	}
	// The response is decoded into the object.
	desired = desired.DeepCopyObject().(P)
	return desired, wrap(child, r.wrote(ctx, desired, r.Patch(ctx, desired, client.StrategicMergeFrom(child))))
}

// current returns a child from the cache, or as it was written after that.
func current[T any, P object[T]](ctx context.Context, r *reconciler, app *AppDeploy, result *ctrl.Result) (P, error) {
	cached := P(new(T))
	cached.SetNamespace(app.Namespace)
	cached.SetName(app.Name)
	written := r.written.get(cached)
	err := r.Get(ctx, client.ObjectKeyFromObject(app), cached)
	if !written.isNewer(cached) {
		return cached, err
	}
	if err != nil {
		result.RequeueAfter = writtenTimeout
	}
	return written.object.(P), nil
}

func create[T any, P object[T]](ctx context.Context, r *reconciler, app *AppDeploy, desire func(*AppDeploy, P)) (P, error) {
	child := P(new(T))
	child.SetNamespace(app.Namespace)
	child.SetName(app.Name)
	child.SetLabels(desiredLabels(app))
	child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(app, groupVersion.WithKind("AppDeploy"))})
	desire(app, child)
	return child, r.wrote(ctx, child, r.Create(ctx, child))
}

// wrote records the response to a write until the cache has it, which it may have already.
func (r *reconciler) wrote(ctx context.Context, response client.Object, err error) error {
	if err != nil {
		return err
	}
	if _, err := stripped(response); err != nil {
		return err
	}
	r.written.add(response)
	cached := reflect.New(reflect.TypeOf(response).Elem()).Interface().(client.Object)
	if r.Get(ctx, client.ObjectKeyFromObject(response), cached) == nil {
		r.written.observe(cached)
	}
	return nil
}

func wrap(child client.Object, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", reflect.TypeOf(child).Elem().Name(), err)
}

// writeStatus patches the status if it differs.
func (r *reconciler) writeStatus(ctx context.Context, app *AppDeploy, d *appsv1.Deployment, failure error) error {
	after := app.DeepCopy()
	after.Status.ObservedGeneration = app.Generation
	if failure == nil {
		after.Status.ReadyReplicas = d.Status.ReadyReplicas
		after.Status.URL = "http://" + host(app) + "/"
	}
	meta.SetStatusCondition(&after.Status.Conditions, readyCondition(app, d, failure))
	if equality.Semantic.DeepEqual(app.Status, after.Status) {
		return nil
	}
	err := r.wrote(ctx, after, r.Status().Patch(ctx, after, client.MergeFrom(app)))
	return client.IgnoreNotFound(err)
}

func readyCondition(app *AppDeploy, d *appsv1.Deployment, failure error) metav1.Condition {
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, ObservedGeneration: app.Generation}
	if failure != nil {
		ready.Reason, ready.Message = "ReconcileError", failure.Error()
		if errors.Is(failure, errNotControlled) {
			ready.Reason = "NameConflict"
		}
		return ready
	}
	replicas := desiredReplicas(app)
	ready.Reason = "DeploymentNotReady"
	ready.Message = fmt.Sprintf("%d of %d replicas are ready", d.Status.ReadyReplicas, replicas)
	if d.Status.ObservedGeneration >= d.Generation && d.Status.ReadyReplicas >= replicas && isAvailable(d) {
		ready.Status, ready.Reason = metav1.ConditionTrue, "DeploymentReady"
	}
	return ready
}
