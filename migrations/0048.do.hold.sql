-- A restored installation is on hold until an operator releases it: nothing is sent and no webhook is
-- posted, because the lost machine may have sent some of it (store/backup/hold.ts). All times by app_now().
alter table installation add column on_hold_since timestamptz, -- null: not on hold
                         add column backup_taken_at timestamptz; -- of the backup that was restored last
