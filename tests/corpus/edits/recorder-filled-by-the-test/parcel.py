STEPS = ["packed", "sent"]


def deliver(parcel, listener):
    for step in STEPS:
        listener(step)
    return parcel
