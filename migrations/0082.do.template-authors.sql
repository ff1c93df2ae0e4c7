-- Versions of templates show who saved them last, and when. Null for versions of earlier builds.
alter table template_versions add column saved_by text;
alter table template_versions add column saved_at timestamptz;
