"""With docs/rbac.yaml and docs/rbac-edit.yaml a real API server lets the portal's account change quotas, and nothing else;
and what is written in a person's name is judged as theirs.

The manifests are applied under a name of this run instead of "gpu-portal", so that an account that is there already is
not touched. What is edited is an empty ClusterQueue, Cohort and LocalQueue, and a queue of Volcano without work.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.changes.planning import COMMANDS_PATH
from worker.clients.errors import CONFLICT, ClientError
from worker.clients.kube import KubeClient
from worker.clients.writes import KubeWriter, Served
from worker.parsers.kinds import KINDS

from .access import CONTEXT, derived, require_cluster
from .stage import until

require_cluster()
pytestmark = pytest.mark.cluster
ALONE = True

PREFIX = "portal-test-"
DOCS = Path(__file__).resolve().parents[2] / "docs"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
QUEUES = ("ClusterQueue", "Cohort", "LocalQueue", "VolcanoQueue")
FIELDS = {
    "ClusterQueue": "stopPolicy",
    "Cohort": "parentName",
    "LocalQueue": "stopPolicy",
    "VolcanoQueue": "weight",
}
VALUES = {"stopPolicy": "Hold", "parentName": "nobody", "parent": "nobody"}
BESIDE = (
    ("", "secrets"),
    ("", "configmaps"),
    ("", "users"),
    ("", "pods/exec"),
    ("batch", "jobs"),
    ("bus.volcano.sh", "commands"),
    ("kueue.x-k8s.io", "clusterqueues/status"),
    ("kueue.x-k8s.io", "clusterqueues/finalizers"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
)
"""(group, resource) that are not collected and that nobody should get by the way."""


def send(client: KubeClient, method: str, path: str, body: Any = None) -> dict[str, Any]:
    answer = client.write(method, path, body, params={}, headers={"Content-Type": "application/json"})
    found: dict[str, Any] = json.loads(answer)
    return found


def refused(call: Callable[[], Any]) -> str:
    """The API server's words."""
    with pytest.raises(ClientError) as caught:
        call()
    assert (caught.value.kind, caught.value.status) == ("forbidden", 403)
    return caught.value.said


class Bed:
    """Objects of this run: the manifests' and what is edited. `made`: their paths, in the order of creation."""

    def __init__(self, admin: KubeClient, kueue: str) -> None:
        self.admin, self.kueue = admin, kueue
        self.name = f"{PREFIX}{uuid.uuid4().hex[:6]}"
        self.made: list[str] = []
        self.has_volcano = bool(admin.served_versions("scheduling.volcano.sh"))

    def create(self, collection: str, body: dict[str, Any]) -> None:
        try:
            made = KubeWriter(self.admin).create(collection, body)
        except ClientError as error:
            if error.status == 403 and "is forbidden: User" in error.said:
                pytest.skip(f"the account of this kubeconfig may not create it: {error.said}")
            raise
        self.made.append(f"{collection}/{made.obj['metadata']['name']}")

    def apply(self, text: str) -> None:
        for body in yaml.safe_load_all(text.replace("gpu-portal", self.name)):
            if body:
                self.create(_collection(body), body)

    def path(self, kind: str) -> str:
        """Of the object of this kind that is edited."""
        return f"{self.collection(kind)}/{self.name}"

    def collection(self, kind: str) -> str:
        found = KINDS[kind]
        version = self.kueue if found.group == KINDS["Cohort"].group else found.versions[0]
        where = f"/namespaces/{self.name}" if kind == "LocalQueue" else ""
        return f"/apis/{found.group}/{version}{where}/{found.plural}"

    def body(self, kind: str) -> dict[str, Any]:
        specs: dict[str, dict[str, Any]] = {
            "ClusterQueue": {"namespaceSelector": {}},
            "Cohort": {},
            "LocalQueue": {"clusterQueue": self.name},
            "VolcanoQueue": {"weight": 1},
        }
        api = self.collection(kind).split("/")
        return {
            "apiVersion": "/".join(api[2:4]),
            "kind": kind.removeprefix("Volcano"),
            "metadata": {"name": self.name},
            "spec": specs[kind],
        }

    def command(self, short: str) -> dict[str, Any]:
        uid = KubeWriter(self.admin).read(self.path("VolcanoQueue")).uid
        version = KINDS["VolcanoQueue"].versions[0]
        queue = {"apiVersion": f"scheduling.volcano.sh/{version}", "kind": "Queue"}
        return {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": f"{self.name}-{short}"},
            "target": {**queue, "name": self.name, "uid": uid},
            "action": "CloseQueue",
        }

    def clear(self) -> None:
        """Take everything away; what cannot be taken away is told of at the end."""
        left = []
        for path in reversed(self.made):
            try:
                send(self.admin, "DELETE", path)
            except ClientError as error:
                if error.kind != "not_found":
                    left.append(error.message)
        assert left == []

    def token(self) -> str:
        """Of the account, as docs/operating.md reads it."""
        path = f"/api/v1/namespaces/{self.name}/secrets/{self.name}-token"

        def found() -> str:
            data = json.loads(self.admin.get(path)).get("data") or {}
            return base64.b64decode(data.get("token", "")).decode()

        return until(lambda: found() or None, "a token in the account's secret")


def _collection(body: dict[str, Any]) -> str:
    plural = f"{body['kind'].lower()}s"
    root = RBAC if body["apiVersion"].startswith("rbac.") else "/api/v1"
    namespace = body["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


@pytest.fixture(scope="module")
def bed(client: KubeClient, kueue: str) -> Iterator[Bed]:
    made = Bed(client, kueue)
    try:
        for name in ("rbac.yaml", "rbac-edit.yaml"):
            made.apply((DOCS / name).read_text())
        for kind in QUEUES:
            if kind != "VolcanoQueue" or made.has_volcano:
                made.create(made.collection(kind), made.body(kind))
        yield made
    finally:
        made.clear()


@pytest.fixture(scope="module")
def portal(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> KubeClient:
    """A client with the token of the portal's account, once its rights have reached the API server."""
    folder = tmp_path_factory.mktemp("portal")
    found = KubeClient(derived(folder, user={"token": bed.token()}), CONTEXT, 5, 30)
    wanted = [("patch", "kueue.x-k8s.io", "cohorts", ""), ("create", "bus.volcano.sh", "commands", "default")]
    until(lambda: all(may(found, *one) for one in wanted), "the rights of both manifests")
    return found


def may(client: KubeClient, verb: str, group: str, resource: str, namespace: str = "") -> bool:
    """What the API server says of every object of a kind; of all namespaces with namespace ""."""
    plural, _, part = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": plural, "subresource": part, "namespace": namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    said = send(client, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return bool(said["status"]["allowed"])


def needs(bed: Bed, kind: str) -> None:
    if kind == "VolcanoQueue" and not bed.has_volcano:
        pytest.skip("this cluster does not serve Volcano")


def patch(bed: Bed, client: KubeClient, kind: str, *, name: str = "", dry_run: bool = False) -> None:
    """Give the field of this kind another value than it has, and see that it has it, or, of a dry run, has not."""
    writer, field = KubeWriter(client, name), FIELDS[kind]
    if bed.kueue == "v1beta1":
        field = {"parentName": "parent"}.get(field, field)

    def attempt() -> tuple[Served, Served] | None:
        seen = KubeWriter(bed.admin).read(bed.path(kind))
        value: Any = int(seen.spec["weight"]) + 1 if field == "weight" else VALUES[field]
        operations = [{"op": "add", "path": f"/spec/{field}", "value": value}]
        if not seen.spec:
            operations = [{"op": "add", "path": "/spec", "value": {field: value}}]
        version = seen.resource_version
        try:
            done = writer.patch(bed.path(kind), operations, resource_version=version, dry_run=dry_run)
        except ClientError as error:
            if error.kind == CONFLICT:  # a controller wrote the status in between
                return None
            raise
        assert done.spec == {**seen.spec, field: value}
        return seen, done

    seen, done = until(attempt, "a patch without a conflict")
    kept = KubeWriter(bed.admin).read(bed.path(kind)).spec
    assert kept == (seen.spec if dry_run else done.spec)


# ------------------------------------------------------------------ the account's own rights
@pytest.mark.parametrize("kind", QUEUES)
def test_the_four_kinds_are_patched(bed: Bed, portal: KubeClient, kind: str) -> None:
    needs(bed, kind)
    patch(bed, portal, kind, dry_run=True)
    patch(bed, portal, kind)


def test_a_command_is_created(bed: Bed, portal: KubeClient) -> None:
    needs(bed, "VolcanoQueue")
    writer, body = KubeWriter(portal), bed.command("close")
    writer.create(COMMANDS_PATH, body, dry_run=True)
    made = writer.create(COMMANDS_PATH, body)
    bed.made.append(f"{COMMANDS_PATH}/{made.obj['metadata']['name']}")
    elsewhere = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{bed.name}/commands"
    said = refused(lambda: writer.create(elsewhere, bed.command("elsewhere")))
    assert (
        f'cannot create resource "commands" in API group "bus.volcano.sh" in the namespace "{bed.name}"'
        in said
    )
    said = refused(lambda: send(portal, "DELETE", f"{COMMANDS_PATH}/{bed.name}-close"))
    assert 'cannot delete resource "commands"' in said


@pytest.mark.parametrize("kind", QUEUES)
def test_a_queue_is_not_created_replaced_or_deleted(bed: Bed, portal: KubeClient, kind: str) -> None:
    needs(bed, kind)
    plural, path = KINDS[kind].plural, bed.path(kind)
    other = bed.body(kind) | {"metadata": {"name": f"{bed.name}-other"}}
    for verb, call in (
        ("create", lambda: KubeWriter(portal).create(bed.collection(kind), other)),
        ("update", lambda: send(portal, "PUT", path, json.loads(bed.admin.get(path)))),
        ("delete", lambda: send(portal, "DELETE", path)),
        ("deletecollection", lambda: send(portal, "DELETE", bed.collection(kind))),
        ("patch", lambda: send_status(portal, path)),
    ):
        subject = f"{plural}/status" if verb == "patch" else plural
        assert f'cannot {verb} resource "{subject}" in API group "{KINDS[kind].group}"' in refused(call)
    bed.admin.get(path)


def send_status(client: KubeClient, path: str) -> None:
    client.write(
        "PATCH",
        f"{path}/status",
        {"status": {}},
        params={},
        headers={"Content-Type": "application/merge-patch+json"},
    )


def test_nothing_else_is_allowed(portal: KubeClient) -> None:
    """Every verb on every kind that is collected, and on what lies beside them, on all objects in all namespaces."""
    reading, editing = {"get", "list", "watch"}, {KINDS[kind].plural for kind in QUEUES}
    found, wanted = {}, {}
    for group, resource in {*((kind.group, kind.plural) for kind in KINDS.values()), *BESIDE}:
        found[group, resource] = {verb for verb in VERBS if may(portal, verb, group, resource)}
        wanted[group, resource] = set() if (group, resource) in BESIDE else set(reading)
        if (group, resource) == ("", "configmaps"):
            wanted[group, resource] = set()  # one of them is read, by its name
        elif resource in editing:
            wanted[group, resource] = reading | {"patch"}
    assert found == wanted
    here = {verb for verb in VERBS if may(portal, verb, "bus.volcano.sh", "commands", "default")}
    assert here == {"create"}


# ------------------------------------------------------------------ in a person's name
def test_what_is_written_in_a_persons_name_is_judged_as_theirs(bed: Bed, portal: KubeClient) -> None:
    person, account = f"{bed.name}-zhang", f"system:serviceaccount:{bed.name}:{bed.name}"
    said = refused(lambda: patch(bed, portal, "Cohort", name=person, dry_run=True))
    # Which right is named depends on the server: impersonating at all, or for this verb (constrained impersonation).
    assert f'is forbidden: User "{account}" cannot impersonate' in said
    optional = (DOCS / "rbac-edit.yaml").read_text().partition("\n# ---\n")[2]
    bed.apply(
        "\n".join(line.removeprefix("# ") for line in optional.splitlines()).replace(
            "[zhang, li]", f"[{person}]"
        )
    )

    def judged() -> str | None:
        words = refused(lambda: patch(bed, portal, "Cohort", name=person, dry_run=True))
        return None if "cannot impersonate" in words else words

    said = until(judged, "the right to act as the person")
    assert said == (
        f'cohorts.kueue.x-k8s.io "{bed.name}" is forbidden: User "{person}" cannot patch resource "cohorts" '
        'in API group "kueue.x-k8s.io" at the cluster scope'
    )
    refused(lambda: patch(bed, portal, "Cohort", name=f"{bed.name}-wang", dry_run=True))
    bed.create(
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"name": f"{bed.name}-zhang"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": f"{bed.name}-editor",
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": person}],
        },
    )

    def written() -> bool:
        try:
            patch(bed, portal, "Cohort", name=person, dry_run=True)
        except ClientError:
            return False
        return True

    until(written, "the person's own right to patch")
