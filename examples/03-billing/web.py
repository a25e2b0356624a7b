"""The HTTP service in front: FastAPI holds the node, and every request is one event or one read.

python examples/03-billing/web.py [--data data/billing] [--port 8000]

What the reducer refuses becomes 409 with its reason and code. A client that sends an `Idempotency-Key` may
send again whenever it is in doubt: the same key is applied once, and answered the same.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import msgspec
import uvicorn
from billing import Cancelled, CardChanged, RefundAsked, Status, Subscribed, account, app
from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

import cellule
from cellule import CelluleError, Parked, Refused, Rejected, Unavailable, VersionConflict, WorldHandle

routes = APIRouter()


def the_world(request: Request) -> WorldHandle:
    world: WorldHandle = request.app.state.world
    return world


World = Annotated[WorldHandle, Depends(the_world)]
Key = Annotated[str | None, Header(alias="Idempotency-Key")]


class NewSubscription(BaseModel):
    card: str
    cents: int


class NewCard(BaseModel):
    card: str


class NewRefund(BaseModel):
    charge_id: str
    cents: int


class Decision(BaseModel):
    approve: bool
    who: str
    why: str


@routes.put("/customers/{customer}")
async def subscribe(world: World, customer: str, new: NewSubscription, key: Key = None) -> dict[str, str]:
    done = await world.send(Subscribed(customer, new.card, new.cents), id=key, reply=str)
    return {"status": done.reply}


@routes.put("/customers/{customer}/card")
async def change_card(world: World, customer: str, new: NewCard, key: Key = None) -> dict[str, str]:
    done = await world.send(CardChanged(customer, new.card), id=key, reply=str)
    return {"status": done.reply}


@routes.delete("/customers/{customer}")
async def cancel(world: World, customer: str, key: Key = None) -> dict[str, str]:
    done = await world.send(Cancelled(customer), id=key, reply=str)
    return {"status": done.reply}


@routes.get("/customers/{customer}")
async def show(world: World, customer: str) -> Any:
    found = await world.cell(account, customer).state()
    if found is None:
        raise HTTPException(404, f"there is no customer {customer}")
    return msgspec.to_builtins(found)


@routes.get("/customers")
async def search(world: World, status: Status = "past due") -> dict[str, list[str]]:
    """Those with a status, which is one of a few words: nothing a stranger wrote becomes an expression."""
    page = await world.cells(account, where=f'state.status == "{status}"', limit=1_000)
    return {"customers": [cell.state.customer for cell in page.cells if cell.state is not None]}


@routes.post("/customers/{customer}/refunds", status_code=202)
async def ask_refund(world: World, customer: str, new: NewRefund, key: Key = None) -> dict[str, str]:
    done = await world.send(RefundAsked(customer, new.charge_id, new.cents), id=key, reply=str)
    return {"status": done.reply}


@routes.get("/refunds")
async def refunds_to_decide(world: World) -> list[dict[str, Any]]:
    parked = await world.effects(kind="billing.refund", status="parked")
    return [{"id": each.id, "customer": each.key.decode(), "reason": each.reason} for each in parked]


@routes.post("/refunds/{refund}", status_code=204)
async def decide_refund(world: World, refund: str, decision: Decision) -> Response:
    decide = world.approve if decision.approve else world.deny
    await decide(refund, who=decision.who, why=decision.why)
    return Response(status_code=204)


STATUS: dict[type[Exception], int] = {
    Refused: 409,  # by the reducer
    VersionConflict: 412,
    Rejected: 400,  # the request cannot be meant: its key stands for another one, a value does not fit
    Parked: 202,  # kept, and applied later
    Unavailable: 503,  # the same request with the same key is safe
}


def told(_request: Request, error: Exception) -> Response:
    """What a client gets to know of an error; any other is ours: 500, and it is in the log."""
    assert isinstance(error, CelluleError)
    status = next(status for kind, status in STATUS.items() if isinstance(error, kind))
    reason = error.reason if isinstance(error, Refused) else str(error)
    return JSONResponse({"code": error.code, "reason": reason}, status)


def create_api(data: str) -> FastAPI:
    """The service over the store at `data`; the node lives as long as the service."""

    @asynccontextmanager
    async def node_open(api: FastAPI) -> AsyncIterator[None]:
        async with cellule.open(data, app=app) as node:
            api.state.world = await node.world("billing")
            yield

    api = FastAPI(title="Billing", lifespan=node_open)
    for kind in STATUS:
        api.add_exception_handler(kind, told)
    api.include_router(routes)
    return api


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", default="data/billing", help="the store: a folder or postgresql://...")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    uvicorn.run(create_api(given.data), host="127.0.0.1", port=given.port)
