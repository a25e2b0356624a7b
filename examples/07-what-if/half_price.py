"""The same shop with a rule to try: every order after the second is half the price."""

from __future__ import annotations

from shop import Charge, Charged, Customer, Ordered, ordered, settled

from cellule import App, Receipt, Step

app = App("shop")
app.event(key="customer")(Ordered)
charge = app.effect("shop.charge", params=Charge, receipt=Charged)


@app.reducer(effects=[charge])
def customer(state: Customer | None, event: Ordered | Receipt[Charged]) -> Step[Customer]:
    seen = state or Customer()
    if isinstance(event, Receipt):
        return settled(seen, event)
    cents = event.cents // 2 if seen.orders >= 2 else event.cents
    asked = charge(Charge(event.customer, event.order, cents), key=event.order)
    return Step(ordered(seen, event, cents), effects=[asked])
