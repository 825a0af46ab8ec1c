select customer_id, count(*) as orders from {{ ref('overdue') }} group by customer_id
