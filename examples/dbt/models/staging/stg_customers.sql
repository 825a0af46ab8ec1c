select c.id as customer_id, c.name, n.name as country
from {{ source('raw', 'customers') }} c left join {{ ref('country') }} n on n.code = c.country
