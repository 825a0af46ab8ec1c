select country, name, spent,
    rank() over (partition by country order by spent desc, customer_id) as place
from {{ ref('customers') }} where spent is not null
