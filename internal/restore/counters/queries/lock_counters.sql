-- Keeps every acquire, the library's too, from drawing a fence until this
-- transaction ends; looks and releases go on.
LOCK TABLE syncguard_fence_counters IN SHARE ROW EXCLUSIVE MODE;
