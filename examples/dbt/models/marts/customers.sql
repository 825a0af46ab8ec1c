with totals as (
    select customer_id, count(*) as orders, sum(amount) as spent, min(ordered_at) as first_order
    from {{ ref('paid') }} group by customer_id
)
select c.customer_id, c.name, c.country, coalesce(t.orders, 0) as orders, t.spent, t.first_order
from {{ ref('stg_customers') }} c left join totals t using (customer_id)
