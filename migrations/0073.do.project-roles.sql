-- A member can have roles in some projects of the organization only, and none in the others: an object from the ids of
-- projects to roles. Null, as for all members until now: `role` holds in all projects. With an object `role` is viewer,
-- so older code shows such a member more projects, and lets them change nothing. Set it when all nodes run the new version.

alter table members     add column project_roles jsonb;
alter table invitations add column project_roles jsonb;
