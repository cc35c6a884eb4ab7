CREATE MATERIALIZED VIEW items
COMMENT 'What each item has brought in.'
AS SELECT item, count(*) AS sold, sum(cents) AS cents FROM sales GROUP BY item
