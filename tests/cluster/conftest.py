"""The named cluster as a client, as a writer, and as a row of the portal."""

from __future__ import annotations

import fcntl
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from kubernetes import config as kube_config
from kubernetes.client import (
    ApiClient,
    AuthenticationV1TokenRequest,
    CoreV1Api,
    CustomObjectsApi,
    V1TokenRequestSpec,
)
from kubernetes.client.exceptions import ApiException

from apps.fleet.models import Cluster
from apps.observations.services import RunResult
from tests.differential.real import Api
from worker.clients.kube import KubeClient
from worker.clients.writes import KubeWriter
from worker.collectors.run import collect_source
from worker.parsers.kinds import KINDS

from .access import CONTEXT, KUBECONFIG, derived
from .stage import VOLCANO, Stage
from .verdicts import VERSIONS, Bed, make_objects

KUEUE = "kueue.x-k8s.io"
PRIORITY_CLASSES = ("v1beta2", "workloadpriorityclasses")


@pytest.fixture(scope="module", autouse=True)
def turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Files that read the cluster run side by side; one that says ALONE waits for them, and they for it: what it creates
    and removes would be there for one reading and not for the next. Its turn ends when what it removed is gone."""
    alone = getattr(request.module, "ALONE", False)
    with (Path(tempfile.gettempdir()) / "gpu-portal-cluster-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if not alone:
            yield
            return
        api = request.getfixturevalue("writer")
        before = being_removed(api)
        yield
        await_removed(api, before)


WITH_FINALIZERS = (
    "/api/v1/namespaces",
    *(
        f"/apis/{KUEUE}/v1beta1/{kind}"
        for kind in ("clusterqueues", "resourceflavors", "admissionchecks", "workloads")
    ),
)
"""What goes on being there for a while after it has been deleted."""


def being_removed(api: ApiClient) -> set[str]:
    found = set()
    for path in WITH_FINALIZERS:
        try:
            items = Api(api).call("GET", path)["items"]
        except ApiException as error:
            if error.status in (401, 403, 404):
                continue
            raise
        found |= {item["metadata"]["uid"] for item in items if "deletionTimestamp" in item["metadata"]}
    return found


def await_removed(api: ApiClient, before: set[str], seconds: float = 120) -> None:
    """Until nothing is being removed but what was `before`. A namespace takes longest."""
    until = time.monotonic() + seconds
    while left := being_removed(api) - before:
        if time.monotonic() > until:
            pytest.fail(f"still being removed after {seconds:.0f} s: {sorted(left)}")
        time.sleep(0.5)


@pytest.fixture(scope="session")
def client() -> KubeClient:
    return KubeClient(KUBECONFIG, CONTEXT, 5, 30)


@pytest.fixture(scope="session")
def kueue(client: KubeClient) -> str:
    """The version in which Kueue is served."""
    served = client.served_versions(KUEUE)
    found = [version for version in KINDS["Workload"].versions if version in served]
    if not found:
        pytest.skip("this cluster does not serve Kueue")
    return found[0]


@pytest.fixture(scope="session")
def writer() -> ApiClient:
    made: ApiClient = kube_config.new_client_from_config(  # type: ignore[no-untyped-call]
        config_file=KUBECONFIG, context=CONTEXT or None, persist_config=False
    )
    return made


class PriorityClass:
    """A WorkloadPriorityClass that nobody uses: something to create, change and delete."""

    def __init__(self, api: CustomObjectsApi, version: str) -> None:
        self._api, self._version = api, version
        self.name = f"portal-test-{uuid.uuid4().hex[:8]}"

    def create(self) -> None:
        body = {
            "apiVersion": f"{KUEUE}/{self._version}",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": self.name},
            "value": 1,
            "description": "made by a test of the portal; may be deleted",
        }
        try:
            self._api.create_cluster_custom_object(KUEUE, self._version, "workloadpriorityclasses", body)
        except ApiException as error:
            if error.status in (403, 405):
                pytest.skip(f"a WorkloadPriorityClass cannot be created here: {error.reason}")
            raise

    def relabel(self, value: str) -> None:
        patch = {"metadata": {"labels": {"portal-test": value}}}
        self._api.patch_cluster_custom_object(
            KUEUE, self._version, "workloadpriorityclasses", self.name, patch
        )

    def delete(self) -> None:
        try:
            self._api.delete_cluster_custom_object(KUEUE, self._version, "workloadpriorityclasses", self.name)
        except ApiException as error:
            if error.status not in (403, 404, 405):
                raise


@pytest.fixture
def priority_class(writer: ApiClient, kueue: str) -> Iterator[PriorityClass]:
    made = PriorityClass(CustomObjectsApi(writer), kueue)
    yield made
    made.delete()


@pytest.fixture
def powerless(writer: ApiClient, tmp_path: Path) -> str:
    """A kubeconfig of somebody who is known to the cluster and may read nothing."""
    request = AuthenticationV1TokenRequest(spec=V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    try:
        made = CoreV1Api(writer).create_namespaced_service_account_token("default", "default", request)
    except ApiException as error:
        pytest.skip(f"cannot get a token without rights: {error.status} {error.reason}")
    assert made.status is not None
    return derived(tmp_path, user={"token": made.status.token})


@pytest.fixture(scope="module")
def edited(writer: ApiClient, kueue: str) -> Iterator[Stage]:
    """A stage for objects to which edits are tried."""
    made = Stage(writer, kueue, "rules")
    try:
        made.open()
        yield made
    except ApiException as error:
        if error.status in (403, 405):
            pytest.skip(f"this cluster lets nobody make queues: {error.reason}")
        raise
    finally:
        made.clear()


@pytest.fixture(scope="module")
def beds(edited: Stage, client: KubeClient) -> list[Bed]:
    """Kueue's objects in each version that is served, the newest first."""
    kinds, served = make_objects(edited, "verdicts.yaml"), client.served_versions(KUEUE)
    return [Bed(edited, KubeWriter(client), kinds, version) for version in VERSIONS if version in served]


@pytest.fixture(scope="module")
def volcano_bed(edited: Stage, client: KubeClient, kueue: str) -> Bed:
    if VOLCANO[1] not in client.served_versions(VOLCANO[0]):
        pytest.skip("this cluster does not serve Volcano's queues")
    return Bed(edited, KubeWriter(client), make_objects(edited, "volcano.yaml"), kueue)


Pull = Callable[..., RunResult]


@pytest.fixture
def cluster(db: None) -> Cluster:
    return Cluster.objects.create(slug="real", name="Real", kubeconfig_path=KUBECONFIG, kube_context=CONTEXT)


@pytest.fixture
def pull(cluster: Cluster) -> Pull:
    """`pull(source)`: one pull of the cluster (or of `of`) now."""

    def act(source: str, of: Cluster | None = None) -> RunResult:
        return collect_source(cluster=of or cluster, source=source, now=timezone.now(), seconds=60)

    return act


def uid_of(item: Any) -> str:
    found: str = item.metadata.uid
    return found
