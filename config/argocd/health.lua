-- Health of the resources of this operator for Argo CD, of all kinds: DataService, RedisCluster, EtcdCluster,
-- MySQLCluster, DataBackup, DataRestore. docs/gitops.md lists the keys of argocd-cm that need a copy of this file.
local status = obj.status
if status == nil then
  return {status = "Progressing", message = "the operator has not reported on it yet"}
end

local message = status.message or ""
if obj.kind == "DataBackup" or obj.kind == "DataRestore" then
  if status.phase == "Succeeded" or status.phase == "Prepared" then
    return {status = "Healthy", message = message}
  elseif status.phase == "Failed" then
    return {status = "Degraded", message = message}
  end
  return {status = "Progressing", message = message}
end

if (status.observedGeneration or -1) < (obj.metadata.generation or 0) then
  return {status = "Progressing", message = "the operator has not seen the latest spec yet"}
end
local spec = obj.spec or {}
if spec.paused == true or spec.pause == true or status.phase == "Paused" or status.phase == "Parked"
    or status.phase == "Hibernated" then
  return {status = "Suspended", message = message}
end
local found = {}
for _, condition in ipairs(status.conditions or {}) do
  found[condition.type] = condition
end
if found.Degraded ~= nil and found.Degraded.status == "True" then
  return {status = "Degraded", message = found.Degraded.message}
end
local bad = {Degraded = true, Failed = true, QuorumLost = true, Unavailable = true, Lost = true}
if bad[status.phase] then
  return {status = "Degraded", message = message}
end
if found.Ready ~= nil and found.Ready.status == "True" then
  return {status = "Healthy", message = message}
end
return {status = "Progressing", message = message}
