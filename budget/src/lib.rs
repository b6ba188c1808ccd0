//! Named memory budgets: leases, recycled chunks and the plan that is their sum.
