select order_id, customer_id, current_date - ordered_at as days
from {{ ref('stg_orders') }} where status = 'placed'
